// Linear layers with weights on grids, declared in lib/layers/linear.h.
#include "lib/layers/grid_weight.h"
#include "lib/layers/linear.h"

namespace comera::layers {
namespace {

// y = act(x Q + x A B + bias). A B, the correction, is a layer of its own; y begins with its result.
class GridLinear final : public Linear {
 public:
  GridLinear(Builder& builder, const LinearSpec& spec, std::int64_t in, kernels::Activation activation)
      : name_(spec.name), weight_{spec.form.grid, spec.out, in}, activation_(activation) {
    base_ = add_lines(builder, spec.name, weight_);
    if (spec.form.layout.empty())
      builder.parameters_dense += in * spec.out;
    else
      correction_ = make_tt_linear(builder, {correction_of(spec)}, in, none);
    bias_ = add_bias(builder, spec);
  }

  int outputs() const override { return 1; }

  void forward(Pass& pass, const Value& x, Tensor* y) override {
    const std::int64_t tokens = x.tensor.elements() / weight_.numbers;
    if (correction_)
      correction_->forward(pass, x, y);
    else
      y[0] = pass.walk.make("y", {tokens, weight_.lines});
    pass.walk.run(pass.backend().grid_linear,
                  kernels::GridLinear{.tokens = tokens,
                                      .weight = lines_of(pass.walk, *base_, weight_, 0, weight_.lines),
                                      .x = x.tensor.data,
                                      .ldx = weight_.numbers,
                                      .bias = bias_ ? bias_->value.data : nullptr,
                                      .activation = activation_,
                                      .accumulate = correction_ != nullptr,
                                      .y = y[0].data,
                                      .ldy = weight_.lines});
  }

  void backward(Pass&, Sink&, Tensor*, const Tensor&, bool) override { refuse_gradient(name_); }
  Tensor rebuild(Walk&) override { refuse_gradient(name_); }

 private:
  static constexpr auto none = kernels::Activation::none;

  std::string name_;
  kernels::GridLines weight_;  // its shape
  kernels::Activation activation_;
  std::unique_ptr<Linear> correction_;
  Parameter *base_, *bias_;
};

}  // namespace

std::unique_ptr<Linear> make_grid_linear(Builder& builder, const LinearSpec& spec, std::int64_t in,
                                         kernels::Activation activation) {
  return std::make_unique<GridLinear>(builder, spec, in, activation);
}

}  // namespace comera::layers
