// Linear layers y = act(x W + b): one or several that read the same x, dense, in tensor-train form
// or on a grid.
#pragma once

#include <memory>

#include "lib/layers/training/builder.h"
#include "lib/layers/training/pass.h"

namespace comera::layers {

// One output of a linear layer.
struct LinearSpec {
  std::string name;  // Hugging Face name of the layer, without ".weight"
  std::int64_t out = 0;
  WeightForm form = {};
  bool bias = true;
  Place place = Place::other;
  bool conv1d = false;  // files store the weight as [in, out] (GPT-2's Conv1D)
};

class Linear : public Producer {
 public:
  virtual int outputs() const = 0;
  // Writes y[0 .. outputs-1], [K, N_i]. The caller drops them.
  virtual void forward(Pass& pass, const Value& x, Tensor* y) = 0;
  // Takes ownership of dy[0 .. outputs-1] and drops them. Writes dx [K, M] or adds to it; an empty dx is skipped.
  virtual void backward(Pass& pass, Sink& sink, Tensor* dy, const Tensor& dx, bool accumulate_dx) = 0;
  // The same for an x that nothing else reads in the backward: returns dx, where possible in the memory of x. The
  // caller drops it.
  virtual Tensor backward_replacing(Pass& pass, Sink& sink, Tensor* dy, std::int64_t in);
  // After the forward: the producer of y, or null if the kept values do not suffice to compute y again.
  virtual Producer* producer() { return this; }
};

// All linears of a layer that read the same x. Those in tensor-train form share one wide left factor. Dense ones are
// separate.
class LinearSet {
 public:
  static LinearSet make(Builder& builder, const std::vector<LinearSpec>& specs, std::int64_t in,
                        kernels::Activation activation);

  void forward(Pass& pass, const Value& x, Tensor* y);
  // The first linear writes dx and the others add to it, or all add to it.
  void backward(Pass& pass, Sink& sink, Tensor* dy, const Tensor& dx, bool accumulate_dx);
  // For a set of one: Linear::backward_replacing().
  Tensor backward_replacing(Pass& pass, Sink& sink, Tensor dy, std::int64_t in);
  // For a set of one, after the forward: the producer that can rebuild y, or null.
  Producer* producer() { return members_.front().linear->producer(); }

 private:
  struct Member {
    std::unique_ptr<Linear> linear;
    std::vector<int> outputs;  // indices in the set
  };
  std::vector<Member> members_;
};

// Standard deviation of the initial entries of a weight: sqrt(1 / (in + out)), for dense and TT weights alike (CoMERA).
double linear_deviation(std::int64_t in, std::int64_t out);

std::unique_ptr<Linear> make_dense_linear(Builder& builder, const LinearSpec& spec, std::int64_t in,
                                          kernels::Activation activation);
std::unique_ptr<Linear> make_tt_linear(Builder& builder, const std::vector<LinearSpec>& specs, std::int64_t in,
                                       kernels::Activation activation);
// A low-rank weight with an activation between its factors: y = act(between(x A) B + b).
std::unique_ptr<Linear> make_bottleneck_linear(Builder& builder, const LinearSpec& spec, std::int64_t in,
                                               kernels::Activation activation);
// For evaluation only.
std::unique_ptr<Linear> make_grid_linear(Builder& builder, const LinearSpec& spec, std::int64_t in,
                                         kernels::Activation activation);
// y = act(x W + x A B + b) with a W that is not trained (Storage::fixed).
std::unique_ptr<Linear> make_fixed_linear(Builder& builder, const LinearSpec& spec, std::int64_t in,
                                          kernels::Activation activation);
// The layer x A B beside a weight on a grid or a fixed one: its chain alone, without a bias.
LinearSpec correction_of(LinearSpec spec);
// The chain of a weight, for add_chain(), with order and gauge of the right sizes.
ChainParameters chain_parameters(const LinearSpec& spec, std::int64_t in);

// Adds a bias, initially uniform in [-1/sqrt(out), 1/sqrt(out)] as in the released code. Returns null if the layer has
// none.
Parameter* add_bias(Builder& builder, const LinearSpec& spec);

}  // namespace comera::layers
