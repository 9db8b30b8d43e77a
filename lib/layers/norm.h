// Residual sum, dropout and normalisation as one layer: s = residual + dropout(x), y = norm(s). The backward reads s:
// kept, or restored from y (kernels/norm_output.h).
#pragma once

#include "kernels/norm_output.h"
#include "lib/layers/training/builder.h"
#include "lib/layers/training/pass.h"

namespace comera::layers {

class ResidualNorm final : public Producer {
 public:
  struct Settings {
    kernels::NormKind kind = kernels::NormKind::layer;
    double epsilon = 1e-5;
    double dropout = 0;           // of x
    double output_dropout = 0;    // of y
    bool output_changes = false;  // the reader changes y in place, so that s cannot be restored from it
    bool shift = true;            // LayerNorm: it has a bias
  };

  // Parameters `<name>.weight` and (LayerNorm) `<name>.bias`.
  ResidualNorm(Builder& builder, const std::string& name, std::int64_t columns, const Settings& settings);

  // Takes ownership of x, whose memory becomes s. `residual` is only read; empty: none. The caller drops y, and *sum
  // (s itself) if it is requested.
  Value forward(Pass& pass, Tensor x, const Tensor& residual, Tensor* sum = nullptr);
  // Computes y again from s.
  Tensor rebuild(Walk& walk) override;
  // Takes ownership of dy and returns d_s in its memory: the gradient of the residual. `d_residual`: gradient of s from
  // other consumers, which is consumed; may be empty. *dx (if requested) is the gradient of x. The caller drops both.
  Tensor backward(Pass& pass, Sink& sink, Tensor dy, Tensor d_residual, Tensor* dx);

 private:
  void keep_input(Pass& pass, Tensor& sum, const Tensor& y);
  kernels::NormRestore restoring(std::int64_t tokens) const;
  Tensor input(Walk& walk);
  // Runs the backward, whose `sum` is not set yet, from s or y.
  void differentiate(Walk& walk, const kernels::NormBackward& call);

  std::int64_t columns_;
  Settings settings_;
  std::uint32_t site_, output_site_;
  Parameter* gain_;
  Parameter* shift_ = nullptr;
  kernels::Dropout output_dropout_;
  Slot sum_;
  Tensor mean_, rstd_;
  bool restores_ = false;   // s from y
  Slot output_;             // y
  Tensor places_, values_;  // the columns of s that are kept beside y
};

}  // namespace comera::layers
