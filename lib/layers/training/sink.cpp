#include "lib/layers/training/sink.h"

#include "kernels/elementwise.h"
#include "lib/core/error.h"

namespace comera::layers {

namespace {

// Sums over micro-batches. Gradients that appear once per step (from_factors) share one tensor of the finishing walk,
// because there are hundreds of small ones. The first open() makes it and sets it to zero.
class AccumulateSink final : public Sink {
 public:
  // begin() sets all step-long gradients to zero, those of the merged factors included.
  AccumulateSink(Parameters& parameters, plan::Slab& step_gradients) : step_gradients_(step_gradients) {
    for (const Parameter& parameter : parameters.all()) {
      if (parameter.at_once || parameter.fixed) {
        gradients_.emplace_back();
        continue;
      }
      plan::Slab& slab = parameter.from_factors ? from_factors_ : step_gradients_;
      const int slot = slab.add("gradient." + parameter.name, plan::Category::gradients, parameter.value.dtype,
                                parameter.gradient_shape());
      gradients_.push_back({parameter.from_factors, slot, {}});
    }
  }

  void apply_by(Apply apply) override { apply_ = std::move(apply); }

  void begin(Walk& walk) override {
    const Tensor first = step_gradients_.items().empty() ? Tensor{} : step_gradients_[0];
    walk.run(walk.backend().fill, kernels::Fill{first.data, step_gradients_.bytes()});
    for (Gradient& gradient : gradients_)
      if (!gradient.from_factors && gradient.slot >= 0) gradient.tensor = step_gradients_[gradient.slot];
  }

  Tensor open(Walk& walk, Parameter& parameter) override {
    if (parameter.at_once) return zeros(walk, parameter);
    Gradient& gradient = gradients_[static_cast<std::size_t>(parameter.index)];
    if (!gradient.from_factors) return step_gradients_[gradient.slot];
    if (memory_.empty()) {
      memory_ = walk.make("gradients of cores", {static_cast<std::int64_t>(from_factors_.bytes())}, DType::u8,
                          plan::Category::gradients);
      walk.run(walk.backend().fill, kernels::Fill{memory_.data, memory_.bytes()});
      from_factors_.bind(memory_.data);
    }
    return gradient.tensor = from_factors_[gradient.slot];
  }

  void close(Walk& walk, Parameter& parameter, Tensor& gradient) override {
    if (!parameter.at_once) {
      gradient = Tensor{};
      return;
    }
    COMERA_CHECK(apply_ != nullptr);
    walk.add_late_sums();  // this gradient's may be among them
    apply_(walk, parameter, gradient);
    walk.drop(gradient);
  }
  void complete(Walk&, Parameter&) override {}

  Tensor gradient(const Parameter& parameter) const override {
    return gradients_[static_cast<std::size_t>(parameter.index)].tensor;
  }

  void release(Walk& walk) override {
    for (Gradient& gradient : gradients_)
      if (gradient.from_factors) gradient.tensor = Tensor{};
    if (!memory_.empty()) walk.drop(memory_);
  }

 private:
  static Tensor zeros(Walk& walk, const Parameter& parameter) {
    const Tensor gradient =
        walk.make("gradient", parameter.gradient_shape(), parameter.value.dtype, plan::Category::gradients);
    walk.run(walk.backend().fill, kernels::Fill{gradient.data, gradient.bytes()});
    return gradient;
  }

  struct Gradient {
    bool from_factors = false;
    int slot = -1;  // in from_factors_ or step_gradients_; -1: applied at once, or none
    Tensor tensor;
  };

  Apply apply_;
  plan::Slab& step_gradients_;
  plan::Slab from_factors_;
  Tensor memory_;  // of from_factors_; empty if not allocated
  std::vector<Gradient> gradients_;
};

}  // namespace

std::unique_ptr<Sink> make_accumulate_sink(Parameters& parameters, plan::Slab& step_gradients) {
  return std::make_unique<AccumulateSink>(parameters, step_gradients);
}

}  // namespace comera::layers
