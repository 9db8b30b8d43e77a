// Linear layers with a weight that is not trained and a chain that is, declared in lib/layers/linear.h.
#include "kernels/elementwise.h"
#include "kernels/linear.h"
#include "lib/layers/linear.h"

namespace comera::layers {
namespace {

// The correction A B is a layer of its own. The backward needs no x for W, because W has no gradient.
class FixedLinear final : public Linear {
 public:
  FixedLinear(Builder& builder, const LinearSpec& spec, std::int64_t in, kernels::Activation activation)
      : in_(in), out_(spec.out), activation_(activation), cast_weights_(builder.cast_weights) {
    Parameter weight;
    weight.name = spec.name + ".weight";
    weight.shape = {in, spec.out};
    weight.init = {Init::Distribution::normal, linear_deviation(in, spec.out)};
    weight.linear = true;
    weight.transposed_in_file = !spec.conv1d;
    weight.fixed = true;
    read_weight_ = cast_weights_.add(builder.parameters.add(std::move(weight)));
    if (spec.form.layout.modes.empty() || spec.form.layout.empty())
      builder.parameters_dense += in * spec.out;
    else
      correction_ = make_tt_linear(builder, {correction_of(spec)}, in, none);
    bias_ = add_bias(builder, spec);
    pre_.layer = spec.name;
    pre_.activation = activation;
  }

  int outputs() const override { return 1; }

  void forward(Pass& pass, const Value& x, Tensor* y) override {
    Walk& walk = pass.walk;
    const std::int64_t tokens = x.tensor.elements() / in_;
    Tensor sum = walk.make("y", {tokens, out_});
    walk.run(walk.backend().linear_forward, {.tokens = tokens,
                                             .in = in_,
                                             .out = out_,
                                             .x = x.tensor.data,
                                             .ldx = in_,
                                             .weight = cast_weights_.of(walk, read_weight_).data,
                                             .bias = bias_ ? bias_->value.data : nullptr,
                                             .y = sum.data,
                                             .ldy = out_});
    if (correction_) {
      Tensor corrected;
      correction_->forward(pass, x, &corrected);
      walk.run(walk.backend().add_scaled, kernels::AddScaled{sum.elements(), 1, corrected.data, sum.data});
      walk.drop(corrected);
    }
    y[0] = sum;
    if (activation_ == none) return;
    y[0] = activated(walk, sum);
    if (pass.policy.saves())
      pass.policy.take(walk, sum, Use::slope, pre_);
    else
      walk.drop(sum);
  }

  Producer* producer() override { return pre_.saved && pre_->has_numbers() ? this : nullptr; }

  Tensor rebuild(Walk& walk) override {
    Tensor pre = pre_->read(walk);
    const Tensor y = activated(walk, pre);
    walk.drop(pre);
    return y;
  }

  void backward(Pass& pass, Sink& sink, Tensor* dy, const Tensor& dx, bool accumulate_dx) override {
    Walk& walk = pass.walk;
    kernels::LinearBackward call;
    call.tokens = dy[0].elements() / out_, call.in = in_, call.out = out_;
    call.dy = dy[0].data, call.lddy = out_;
    Tensor pre;
    if (activation_ != none && pre_->has_numbers()) {
      pre = pre_->value(walk);
      call.pre = pre.data, call.activation = activation_;
    } else if (activation_ != none) {
      pre_->multiply_by_slope(walk, dy[0]);
      pre_->release(walk);
    }
    Tensor d_bias = bias_ ? sink.open(walk, *bias_) : Tensor{};
    call.weight = cast_weights_.of(walk, read_weight_).data;
    call.dx = dx.data, call.lddx = in_, call.accumulate_dx = accumulate_dx;
    call.d_bias = d_bias.data;
    walk.run(walk.backend().linear_backward, call);
    if (bias_) sink.close(walk, *bias_, d_bias);
    if (!pre.empty()) walk.drop(pre);
    if (correction_) return correction_->backward(pass, sink, dy, dx, true);
    walk.drop(dy[0]);
  }

 private:
  static constexpr auto none = kernels::Activation::none;

  Tensor activated(Walk& walk, const Tensor& pre) const {
    const Tensor y = walk.make("y", pre.shape);
    walk.run(walk.backend().activation_forward,
             kernels::ActivationForward{activation_, pre.elements(), pre.data, y.data});
    return y;
  }

  std::int64_t in_, out_;
  kernels::Activation activation_;
  CastWeights& cast_weights_;
  int read_weight_;  // index in cast_weights_
  std::unique_ptr<Linear> correction_;
  Parameter* bias_;
  Slot pre_;
};

}  // namespace

std::unique_ptr<Linear> make_fixed_linear(Builder& builder, const LinearSpec& spec, std::int64_t in,
                                          kernels::Activation activation) {
  return std::make_unique<FixedLinear>(builder, spec, in, activation);
}

}  // namespace comera::layers
