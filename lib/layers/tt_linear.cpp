// Linear layers with weights in tensor-train form, declared in lib/layers/linear.h.
#include "kernels/tt_linear.h"

#include "kernels/chain.h"
#include "kernels/elementwise.h"
#include "kernels/tt_output_product.h"
#include "lib/core/error.h"
#include "lib/layers/linear.h"

namespace comera::layers {
namespace {

// One or several TT (or low-rank) weights on the same x. This class computes the tall products; TtMerger handles cores
// and merged factors. The backward needs only T1 = x A besides x: the input of the activation is T1 B, which costs no
// more to compute again than to read back.
class TtLinear final : public Linear {
 public:
  TtLinear(Builder& builder, const std::vector<LinearSpec>& specs, std::int64_t in, kernels::Activation activation)
      : in_(in),
        activation_(activation),
        dtype_(builder.dtype),
        factors_(builder.factors),
        step_gradients_(builder.step_gradients),
        merger_(builder.merger),
        threshold_(builder.threshold) {
    COMERA_CHECK(specs.size() <= kernels::max_outputs);
    for (const LinearSpec& spec : specs) {
      const tt::Layout& layout = spec.form.layout;
      const std::int64_t rank = layout.empty() ? 0 : kernels::padded_rank(layout.ranks[layout.middle()]);
      outputs_.push_back({.out = spec.out, .rank = rank, .offset = width_});
      width_ += outputs_.back().rank;
    }
    if (!builder.brief_factors) {
      left_ = factors_.add(specs[0].name + ".left", plan::Category::scratch, dtype_, {in, width_});
      d_left_ = step_gradients_.add(specs[0].name + ".d_left", plan::Category::gradients,
                                    kernels::parameter_type(dtype_), {in, width_});
    }
    for (std::size_t i = 0; i < specs.size(); ++i) add_output(builder, specs[i], outputs_[i]);
    x_.layer = t1_.layer = specs[0].name;
    x_.place = specs[0].place;
  }

  int outputs() const override { return static_cast<int>(outputs_.size()); }

  void forward(Pass& pass, const Value& x, Tensor* y) override {
    const std::int64_t tokens = x.tensor.elements() / in_;
    Tensor t1 = pass.walk.make("t1", {tokens, width_});
    Factors factors = merged(pass.walk);
    kernels::TtLinearForward call = forward_call(t1, factors);
    call.x = x.tensor.data;
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      y[i] = pass.walk.make("y", {tokens, outputs_[i].out});
      call.output[i].y = y[i].data;
    }
    pass.walk.run_chosen(pass.backend().tt_linear_forward, call);
    drop(pass.walk, factors);
    pass.policy.save(pass.walk, x, Use::product, x_);
    pass.policy.take(pass.walk, t1, Use::value, t1_);
  }

  // Computes only the second product, from the saved T1.
  Tensor rebuild(Walk& walk) override {
    Tensor t1 = t1_->read(walk);
    Tensor y = walk.make("y", {t1.shape[0], outputs_[0].out});
    Factors factors = merged(walk);
    kernels::TtLinearForward call = forward_call(t1, factors);
    call.t1_is_given = true;
    call.output[0].y = y.data;
    walk.run_chosen(walk.backend().tt_linear_forward, call);
    drop(walk, factors);
    walk.drop(t1);
    return y;
  }

  bool multiplies(const Walk& walk, std::int64_t out) const override {
    const kernels::TtOutputProduct call{.in = outputs_[0].out, .out = out};
    return walk.backend().tt_output_product.run != nullptr && kernels::fits(call);
  }

  // With y = act(T1 B + b), of which each part is computed where it is multiplied.
  void product(Walk& walk, const Tensor& g, std::int64_t ldg, const Tensor& result, std::int64_t ld_result,
               std::int64_t out) override {
    Tensor t1 = t1_->read(walk);
    Factors factors = merged(walk);
    const Output& output = outputs_[0];
    walk.run(walk.backend().tt_output_product,
             kernels::TtOutputProduct{.tokens = t1.shape[0],
                                      .rank = output.rank,
                                      .in = output.out,
                                      .out = out,
                                      .t1 = t1.data,
                                      .ld_t1 = width_,
                                      .right = factors.right[0].data,
                                      .bias = output.bias ? output.bias->value.data : nullptr,
                                      .activation = activation_,
                                      .g = g.data,
                                      .ldg = ldg,
                                      .result = result.data,
                                      .ld_result = ld_result});
    drop(walk, factors);
    walk.drop(t1);
  }

  void backward(Pass& pass, Sink& sink, Tensor* dy, const Tensor& dx, bool accumulate_dx) override {
    Tensor x = only_multiplies(pass.walk) ? Tensor{} : x_->value(pass.walk);
    backward_of(pass, sink, dy, x, dx, accumulate_dx);
    if (!x.empty()) pass.walk.drop(x);
  }

  Tensor backward_replacing(Pass& pass, Sink& sink, Tensor* dy, std::int64_t in) override {
    if (only_multiplies(pass.walk)) return Linear::backward_replacing(pass, sink, dy, in);
    Tensor x = x_->value(pass.walk);
    backward_of(pass, sink, dy, x, x, false);
    return x;
  }

 private:
  // x is read through its product with u1 alone.
  bool only_multiplies(const Walk& walk) const { return x_->estimates() || x_->multiplies(walk, in_, width_); }

  // An empty x: only its product with u1 is there.
  void backward_of(Pass& pass, Sink& sink, Tensor* dy, const Tensor& x, const Tensor& dx, bool accumulate_dx) {
    Tensor t1 = t1_->value(pass.walk);
    const std::int64_t tokens = t1.shape[0];
    Tensor u1 = pass.walk.make("u1", {tokens, width_});
    Factors factors = merged(pass.walk), gradients = open_gradients(pass.walk);
    kernels::TtLinearBackward call;
    call.tokens = tokens, call.in = in_, call.width = width_;
    call.t1 = t1.data, call.left = factors.left.data, call.activation = activation_;
    call.u1 = u1.data, call.dx = dx.data, call.lddx = in_, call.accumulate_dx = accumulate_dx;
    call.outputs = outputs();
    call.x = x.data, call.ldx = in_, call.d_left = gradients.left.data;
    Tensor d_bias[kernels::max_outputs];
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      if (outputs_[i].bias) d_bias[i] = sink.open(pass.walk, *outputs_[i].bias);
      call.output[i] = describe(outputs_[i], factors.right[i]);
      call.output[i].dy = dy[i].data;
      call.output[i].d_right = gradients.right[i].data;
      call.output[i].d_bias = d_bias[i].data;
    }
    pass.walk.run_chosen(pass.backend().tt_linear_backward, call);
    drop(pass.walk, factors);
    if (x.empty()) {
      x_->product(pass.walk, u1, width_, gradients.left, width_, in_, width_);
      x_->release(pass.walk);
    }
    release(pass, sink, dy, d_bias);
    pass.walk.drop(t1);
    pass.walk.drop(u1);
    close_gradients(pass.walk, sink, gradients);
  }

  struct Output {
    std::int64_t out, rank, offset;
    Parameter* bias = nullptr;
    int right = -1, d_right = -1;  // items of the slabs
    std::size_t weight = 0;        // of merger_, where factors are brief
  };

  // Merged factors, or their gradients: those of the step, or brief ones, which the caller drops.
  struct Factors {
    Tensor left, right[kernels::max_outputs];
  };

  bool brief() const { return left_ < 0; }

  Factors make(Walk& walk, DType dtype, plan::Category category) const {
    Factors made;
    made.left = walk.make("left", {in_, width_}, dtype, category);
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      made.right[i] = walk.make("right", {outputs_[i].rank, outputs_[i].out}, dtype, category);
    return made;
  }

  Factors merged(Walk& walk) const {
    if (!brief()) {
      Factors stored{factors_[left_], {}};
      for (std::size_t i = 0; i < outputs_.size(); ++i) stored.right[i] = factors_[outputs_[i].right];
      return stored;
    }
    const Factors made = make(walk, dtype_, plan::Category::scratch);
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      if (outputs_[i].rank > 0) merger_.merge(walk, outputs_[i].weight, threshold_, {made.left, made.right[i]});
    return made;
  }

  Factors open_gradients(Walk& walk) const {
    if (!brief()) {
      Factors stored{step_gradients_[d_left_], {}};
      for (std::size_t i = 0; i < outputs_.size(); ++i) stored.right[i] = step_gradients_[outputs_[i].d_right];
      return stored;
    }
    const Factors made = make(walk, kernels::parameter_type(dtype_), plan::Category::gradients);
    walk.run(walk.backend().fill, kernels::Fill{made.left.data, made.left.bytes()});
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      walk.run(walk.backend().fill, kernels::Fill{made.right[i].data, made.right[i].bytes()});
    return made;
  }

  void close_gradients(Walk& walk, Sink& sink, Factors& gradients) const {
    if (!brief()) return;
    walk.add_late_sums();
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      if (outputs_[i].rank > 0)
        merger_.split(walk, sink, outputs_[i].weight, threshold_, {gradients.left, gradients.right[i]});
      walk.drop(gradients.right[i]);
    }
    walk.drop(gradients.left);
  }

  // Tensors of slabs stay.
  void drop(Walk& walk, Factors& factors) const {
    walk.drop(factors.left);
    for (std::size_t i = 0; i < outputs_.size(); ++i) walk.drop(factors.right[i]);
  }

  void add_output(Builder& builder, const LinearSpec& spec, Output& output) {
    const std::size_t index = add_chain(builder, chain_parameters(spec, in_), linear_deviation(in_, spec.out));
    if (!brief()) {
      output.right = factors_.add(spec.name + ".right", plan::Category::scratch, dtype_, {output.rank, spec.out});
      output.d_right = step_gradients_.add(spec.name + ".d_right", plan::Category::gradients,
                                           kernels::parameter_type(dtype_), {output.rank, spec.out});
    }
    output.bias = add_bias(builder, spec);
    if (output.rank > 0)
      output.weight = merger_.add(index, {left_, output.right, d_left_, output.d_right, output.offset, width_});
  }

  static kernels::TtOutput describe(const Output& output, const Tensor& right) {
    kernels::TtOutput row;
    row.out = row.ldy = output.out;
    row.rank = output.rank;
    row.offset = output.offset;
    row.right = right.data;
    row.bias = output.bias ? output.bias->value.data : nullptr;
    return row;
  }

  kernels::TtLinearForward forward_call(const Tensor& t1, const Factors& factors) const {
    kernels::TtLinearForward call;
    call.tokens = t1.shape[0], call.in = in_, call.ldx = in_, call.width = width_;
    call.left = factors.left.data;
    call.activation = activation_;
    call.t1 = t1.data;
    call.outputs = outputs();
    for (std::size_t i = 0; i < outputs_.size(); ++i) call.output[i] = describe(outputs_[i], factors.right[i]);
    return call;
  }

  void release(Pass& pass, Sink& sink, Tensor* dy, Tensor* d_bias) {
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      if (outputs_[i].bias) sink.close(pass.walk, *outputs_[i].bias, d_bias[i]);
      pass.walk.drop(dy[i]);
    }
  }

  std::int64_t in_, width_ = 0;
  kernels::Activation activation_;
  DType dtype_;
  plan::Slab& factors_;
  plan::Slab& step_gradients_;
  TtMerger& merger_;
  const double& threshold_;
  std::vector<Output> outputs_;
  int left_ = -1, d_left_ = -1;
  Slot x_, t1_;
};

}  // namespace

std::unique_ptr<Linear> make_tt_linear(Builder& builder, const std::vector<LinearSpec>& specs, std::int64_t in,
                                       kernels::Activation activation) {
  return std::make_unique<TtLinear>(builder, specs, in, activation);
}

}  // namespace comera::layers
