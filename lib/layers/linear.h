// Linear layers y = act(x W + b), one or several that read the same x, dense or in tensor-train form.
#pragma once

#include <memory>

#include "lib/layers/builder.h"
#include "lib/layers/pass.h"

namespace comera::layers {

// What one output of a linear layer is. `modes` and `ranks` are those of lib/tt/modes.h; a low-rank pair has the modes
// {in, out}.
struct LinearSpec {
  std::string name;  // Hugging Face name of the layer, without ".weight"
  std::int64_t out = 0;
  Form form = Form::dense;
  std::vector<std::int64_t> modes, ranks, initial_ranks;
  ChainShape chain = {};
  bool bias = true;
};

class Linear : public Producer {
 public:
  virtual int outputs() const = 0;
  // Makes y[0 .. outputs-1], [K, N_i]; the caller drops them.
  virtual void forward(Pass& pass, const Value& x, Tensor* y) = 0;
  // Takes dy[0 .. outputs-1] (dropped here); dx [K, M] is written or added to, or left out when empty.
  virtual void backward(Pass& pass, Sink& sink, Tensor* dy, const Tensor& dx, bool accumulate_dx) = 0;
};

// All linears of a layer that read the same x: those in tensor-train form share one wide left half, dense ones stand
// alone.
class LinearSet {
 public:
  static LinearSet make(Builder& builder, const std::vector<LinearSpec>& specs, std::int64_t in,
                        kernels::Activation activation);

  void forward(Pass& pass, const Value& x, Tensor* y);
  // dx is written by the first and added to by the others, or added to by all.
  void backward(Pass& pass, Sink& sink, Tensor* dy, const Tensor& dx, bool accumulate_dx);
  // For a set of one: what y's consumers may rebuild it with.
  Producer* producer() { return members_.front().linear.get(); }

 private:
  struct Member {
    std::unique_ptr<Linear> linear;
    std::vector<int> outputs;  // of the set
  };
  std::vector<Member> members_;
};

// Standard deviation of a weight's entries at the start: sqrt(1 / (in + out)), of dense and TT weights alike (CoMERA).
double linear_deviation(std::int64_t in, std::int64_t out);

std::unique_ptr<Linear> make_dense_linear(Builder& builder, const LinearSpec& spec, std::int64_t in,
                                          kernels::Activation activation);
std::unique_ptr<Linear> make_tt_linear(Builder& builder, const std::vector<LinearSpec>& specs, std::int64_t in,
                                       kernels::Activation activation);

// A bias, uniform at the start in [-1/sqrt(out), 1/sqrt(out)], as in the released code; null where the layer has none.
Parameter* add_bias(Builder& builder, const LinearSpec& spec);

}  // namespace comera::layers
