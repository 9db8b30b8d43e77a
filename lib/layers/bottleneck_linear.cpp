// Low-rank linear layers with an activation between their factors (CoLA), declared in lib/layers/linear.h.
#include "kernels/chain.h"
#include "kernels/elementwise.h"
#include "kernels/linear.h"
#include "lib/core/error.h"
#include "lib/layers/linear.h"

namespace comera::layers {
namespace {

// T1 = x A, h = between(T1), y = act(h B + b). The chain's diagonal is merged into A. The backward needs T1 besides x:
// h and the input of the activation cost less to compute again than to keep.
class BottleneckLinear final : public Linear {
 public:
  BottleneckLinear(Builder& builder, const LinearSpec& spec, std::int64_t in, kernels::Activation activation)
      : in_(in),
        out_(spec.out),
        rank_(kernels::padded_rank(spec.form.layout.ranks[spec.form.layout.middle()])),
        between_(spec.form.between),
        activation_(activation),
        factors_(builder.factors),
        step_gradients_(builder.step_gradients) {
    const std::size_t index = add_chain(builder, chain_parameters(spec, in), linear_deviation(in, spec.out));
    const DType of_gradients = kernels::parameter_type(builder.dtype);
    const auto factor = [&](const char* name, Shape shape) {
      return factors_.add(spec.name + name, plan::Category::scratch, builder.dtype, shape);
    };
    const auto gradient = [&](const char* name, Shape shape) {
      return step_gradients_.add(spec.name + name, plan::Category::gradients, of_gradients, shape);
    };
    left_ = factor(".left", {in, rank_}), right_ = factor(".right", {rank_, out_});
    d_left_ = gradient(".d_left", {in, rank_}), d_right_ = gradient(".d_right", {rank_, out_});
    bias_ = add_bias(builder, spec);
    builder.merger.add(index, {left_, right_, d_left_, d_right_, 0, rank_});
    x_.layer = t1_.layer = spec.name;
    x_.place = spec.place;
  }

  int outputs() const override { return 1; }

  void forward(Pass& pass, const Value& x, Tensor* y) override {
    const std::int64_t tokens = x.tensor.elements() / in_;
    Tensor t1 = pass.walk.make("t1", {tokens, rank_});
    pass.walk.run(pass.backend().linear_forward, {.tokens = tokens,
                                                  .in = in_,
                                                  .out = rank_,
                                                  .x = x.tensor.data,
                                                  .ldx = in_,
                                                  .weight = factors_[left_].data,
                                                  .y = t1.data,
                                                  .ldy = rank_});
    y[0] = second(pass.walk, t1, activation_);
    pass.policy.save(pass.walk, x, Use::product, x_);
    pass.policy.take(pass.walk, t1, Use::value, t1_);
  }

  Tensor rebuild(Walk& walk) override {
    Tensor t1 = t1_->read(walk);
    const Tensor y = second(walk, t1, activation_);
    walk.drop(t1);
    return y;
  }

  void backward(Pass& pass, Sink& sink, Tensor* dy, const Tensor& dx, bool accumulate_dx) override {
    Walk& walk = pass.walk;
    Tensor t1 = t1_->value(walk), d_t1 = backward_of_second(pass, sink, t1, dy[0]);
    kernels::LinearBackward call;
    call.tokens = t1.shape[0], call.in = in_, call.out = rank_;
    call.dy = d_t1.data, call.lddy = rank_;
    call.pre = t1.data, call.activation = between_;
    call.weight = factors_[left_].data;
    call.dx = dx.data, call.lddx = in_, call.accumulate_dx = accumulate_dx;
    walk.run(walk.backend().linear_backward, call);
    walk.drop(t1);
    x_->product(walk, d_t1, rank_, step_gradients_[d_left_], rank_, in_, rank_);
    x_->release(walk);
    walk.drop(d_t1);
  }

 private:
  Tensor between_of(Walk& walk, const Tensor& t1) const {
    const Tensor h = walk.make("h", t1.shape);
    walk.run(walk.backend().activation_forward, kernels::ActivationForward{between_, t1.elements(), t1.data, h.data});
    return h;
  }

  void run_second(Walk& walk, const Tensor& h, kernels::Activation activation, const Tensor& y) const {
    walk.run(walk.backend().linear_forward, {.tokens = h.shape[0],
                                             .in = rank_,
                                             .out = out_,
                                             .x = h.data,
                                             .ldx = rank_,
                                             .weight = factors_[right_].data,
                                             .bias = bias_ ? bias_->value.data : nullptr,
                                             .activation = activation,
                                             .y = y.data,
                                             .ldy = out_});
  }

  Tensor second(Walk& walk, const Tensor& t1, kernels::Activation activation) const {
    Tensor y = walk.make("y", {t1.shape[0], out_}), h = between_of(walk, t1);
    run_second(walk, h, activation, y);
    walk.drop(h);
    return y;
  }

  // Takes dy. Returns the gradient of h.
  Tensor backward_of_second(Pass& pass, Sink& sink, const Tensor& t1, Tensor& dy) {
    Walk& walk = pass.walk;
    Tensor h = between_of(walk, t1), d_h = walk.make("d_h", t1.shape), pre;
    if (activation_ != kernels::Activation::none) {
      pre = walk.make("pre_activation", dy.shape);
      run_second(walk, h, kernels::Activation::none, pre);
    }
    Tensor d_bias = bias_ ? sink.open(walk, *bias_) : Tensor{};
    kernels::LinearBackward call;
    call.tokens = t1.shape[0], call.in = rank_, call.out = out_;
    call.dy = dy.data, call.lddy = out_;
    call.pre = pre.data, call.activation = activation_;
    call.weight = factors_[right_].data;
    call.dx = d_h.data, call.lddx = rank_;
    call.d_bias = d_bias.data;
    walk.run(walk.backend().linear_backward, call);
    if (bias_) sink.close(walk, *bias_, d_bias);
    if (!pre.empty()) walk.drop(pre);
    walk.run(walk.backend().product, {.tokens = t1.shape[0],
                                      .in = rank_,
                                      .out = out_,
                                      .x = h.data,
                                      .ldx = rank_,
                                      .g = dy.data,
                                      .ldg = out_,
                                      .result = step_gradients_[d_right_].data,
                                      .ld_result = out_});
    walk.drop(h);
    walk.drop(dy);
    return d_h;
  }

  std::int64_t in_, out_, rank_;
  kernels::Activation between_, activation_;
  plan::Slab& factors_;
  plan::Slab& step_gradients_;
  int left_ = -1, right_ = -1, d_left_ = -1, d_right_ = -1;
  Parameter* bias_ = nullptr;
  Slot x_, t1_;
};

}  // namespace

std::unique_ptr<Linear> make_bottleneck_linear(Builder& builder, const LinearSpec& spec, std::int64_t in,
                                               kernels::Activation activation) {
  return std::make_unique<BottleneckLinear>(builder, spec, in, activation);
}

}  // namespace comera::layers
