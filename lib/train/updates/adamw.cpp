// AdamW with moments in 32 and in 8 bits.
#include "kernels/adamw8.h"
#include "kernels/optimizer.h"
#include "lib/plan/walk.h"
#include "lib/train/updates/method.h"

namespace comera::train {
namespace {

using engine::ParameterState;
using layers::StepState;
using layers::Walk;

class Adamw final : public Method {
 public:
  bool takes(const Parameter&, bool) const override { return true; }
  bool moves_by_rate() const override { return true; }

  std::vector<ParameterState> state() const override {
    const auto shape = [](const Parameter& parameter) { return parameter.gradient_shape(); };
    return {{"moment1", shape}, {"moment2", shape}};
  }

  void run(Walk& walk, StepState* state, std::span<const Target> targets, const States& states) override {
    tensors_.clear();
    for (const Target& t : targets)
      tensors_.push_back({t.count, t.value, t.gradient, states.of<void>(0, *t.parameter),
                          states.of<void>(1, *t.parameter), t.scalars, static_cast<float>(t.rate_scale)});
    walk.run(walk.backend().adamw, {tensors_.data(), static_cast<int>(tensors_.size()), &state->scalars});
  }

 private:
  std::vector<kernels::AdamwTensor> tensors_;
};

class Adamw8bit final : public Method {
 public:
  explicit Adamw8bit(std::int64_t least_elements) : least_elements_(least_elements) {}
  bool takes(const Parameter& parameter, bool by_name) const override {
    return is_dense_linear(parameter, by_name) && parameter.gradient_shape().elements() >= least_elements_;
  }

  std::vector<ParameterState> state() const override {
    const auto codes = [](const Parameter& parameter) { return Shape{parameter.gradient_shape().elements()}; };
    const auto blocks = [](const Parameter& parameter) {
      return Shape{kernels::adamw8_blocks(parameter.gradient_shape().elements())};
    };
    return {{"moment1.codes", codes, DType::u8},
            {"moment2.codes", codes, DType::u8},
            {"moment1.largest", blocks, DType::f32},
            {"moment2.largest", blocks, DType::f32}};
  }

  void run(Walk& walk, StepState* state, std::span<const Target> targets, const States& states) override {
    tensors_.clear();
    for (const Target& t : targets)
      tensors_.push_back({.count = t.count,
                          .value = t.value,
                          .gradient = t.gradient,
                          .codes1 = states.of<std::uint8_t>(0, *t.parameter),
                          .codes2 = states.of<std::uint8_t>(1, *t.parameter),
                          .largest1 = states.of<float>(2, *t.parameter),
                          .largest2 = states.of<float>(3, *t.parameter),
                          .scalars = t.scalars});
    walk.run(walk.backend().adamw8, {tensors_.data(), static_cast<int>(tensors_.size()), &state->scalars});
  }

 private:
  std::int64_t least_elements_;
  std::vector<kernels::Adamw8Tensor> tensors_;
};

}  // namespace

std::unique_ptr<Method> make_adamw() { return std::make_unique<Adamw>(); }
std::unique_ptr<Method> make_adamw8bit(std::int64_t least_elements) {
  return std::make_unique<Adamw8bit>(least_elements);
}

}  // namespace comera::train
