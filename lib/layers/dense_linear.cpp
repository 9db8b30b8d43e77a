// Linear layers with dense weights, declared in lib/layers/linear.h.
#include "kernels/elementwise.h"
#include "kernels/linear.h"
#include "lib/core/error.h"
#include "lib/layers/linear.h"
#include "lib/layers/training/observe.h"

namespace comera::layers {
namespace {

class DenseLinear final : public Linear {
 public:
  DenseLinear(Builder& builder, const LinearSpec& spec, std::int64_t in, kernels::Activation activation)
      : name_(spec.name), in_(in), out_(spec.out), activation_(activation), cast_weights_(builder.cast_weights) {
    Parameter weight;
    weight.name = spec.name + ".weight";
    weight.shape = {in, spec.out};
    weight.init = {Init::Distribution::normal, linear_deviation(in, spec.out)};
    weight.decay = true;
    weight.linear = true;
    weight.transposed_in_file = !spec.conv1d;
    weight.place = spec.place;
    weight_ = builder.add(std::move(weight));
    read_weight_ = cast_weights_.add(weight_);
    bias_ = add_bias(builder, spec);
    x_.layer = pre_.layer = spec.name;
    x_.place = spec.place, x_.weight = weight_;
    pre_.activation = activation;
  }

  int outputs() const override { return 1; }

  void forward(Pass& pass, const Value& x, Tensor* y) override {
    const std::int64_t tokens = x.tensor.elements() / in_;
    Instead instead;
    if (InputObserver* observer = input_observer(); observer && pass.walk.computes()) {
      observer->see(name_, x.tensor);
      instead = observer->instead(name_, tokens);
    }
    y[0] = pass.walk.make("y", {tokens, out_});
    const bool keeps_pre = pass.policy.saves() && activation_ != kernels::Activation::none;
    Tensor pre = keeps_pre ? pass.walk.make("pre_activation", {tokens, out_}) : Tensor{};
    kernels::LinearForward call{.tokens = tokens,
                                .in = in_,
                                .out = out_,
                                .x = x.tensor.data,
                                .ldx = in_,
                                .bias = bias_ ? bias_->value.data : nullptr,
                                .activation = activation_,
                                .y = y[0].data,
                                .ldy = out_,
                                .pre = pre.data};
    multiply(pass, call, instead);
    pass.policy.save(pass.walk, x, Use::product, x_);
    if (keeps_pre) pass.policy.take(pass.walk, pre, Use::slope, pre_);
  }

  Producer* producer() override { return pre_.saved && !pre_->has_numbers() ? nullptr : this; }

  Tensor rebuild(Walk& walk) override {
    Tensor pre = pre_->read(walk);
    Tensor y = walk.make("y", pre.shape);
    walk.run(walk.backend().activation_forward,
             kernels::ActivationForward{activation_, pre.elements(), pre.data, y.data});
    walk.drop(pre);
    return y;
  }

  void backward(Pass& pass, Sink& sink, Tensor* dy, const Tensor& dx, bool accumulate_dx) override {
    const std::int64_t tokens = dy[0].elements() / out_;
    Tensor d_bias = bias_ ? sink.open(pass.walk, *bias_) : Tensor{};
    kernels::LinearBackward call;
    call.tokens = tokens, call.in = in_, call.out = out_;
    call.dy = dy[0].data, call.lddy = out_;
    Tensor pre;
    if (activation_ != kernels::Activation::none && pre_->has_numbers()) {
      pre = pre_->value(pass.walk);
      call.pre = pre.data, call.activation = activation_;
    } else if (activation_ != kernels::Activation::none) {
      pre_->multiply_by_slope(pass.walk, dy[0]);
      pre_->release(pass.walk);
    }
    call.weight = cast_weights_.of(pass.walk, read_weight_).data;
    call.dx = dx.data, call.lddx = in_, call.accumulate_dx = accumulate_dx;
    call.d_bias = d_bias.data;
    pass.walk.run(pass.backend().linear_backward, call);
    if (bias_) sink.close(pass.walk, *bias_, d_bias);
    if (!pre.empty()) pass.walk.drop(pre);
    Tensor d_weight = sink.open(pass.walk, *weight_);
    x_->product(pass.walk, dy[0], out_, d_weight, out_, in_, out_);
    x_->release(pass.walk);
    sink.close(pass.walk, *weight_, d_weight);
    pass.walk.drop(dy[0]);
  }

 private:
  void multiply(Pass& pass, kernels::LinearForward call, const Instead& instead) {
    if (instead.nothing) {
      pass.walk.set_silent(true);
    } else if (instead.rank > 0) {
      pass.walk.run(pass.backend().linear_forward, {.tokens = call.tokens,
                                                    .in = in_,
                                                    .out = instead.rank,
                                                    .x = call.x,
                                                    .ldx = call.ldx,
                                                    .weight = instead.left,
                                                    .y = instead.between,
                                                    .ldy = instead.rank});
      call.in = call.ldx = instead.rank;
      call.x = instead.between;
      call.weight = instead.right;
    } else {
      call.weight = cast_weights_.of(pass.walk, read_weight_).data;
    }
    pass.walk.run(pass.backend().linear_forward, call);
    if (instead.nothing) pass.walk.set_silent(false);
  }

  std::string name_;
  std::int64_t in_, out_;
  kernels::Activation activation_;
  CastWeights& cast_weights_;
  int read_weight_;  // index in cast_weights_
  Parameter *weight_, *bias_;
  Slot x_, pre_;
};

}  // namespace

std::unique_ptr<Linear> make_dense_linear(Builder& builder, const LinearSpec& spec, std::int64_t in,
                                          kernels::Activation activation) {
  return std::make_unique<DenseLinear>(builder, spec, in, activation);
}

}  // namespace comera::layers
