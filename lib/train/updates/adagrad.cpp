// Adagrad and SGD, for all weights. Rank diagonals keep AdamW: the way to a target's deadline is planned with steps of
// the size of the rate, whatever the gradient is.
#include "kernels/adagrad.h"

#include "lib/plan/walk.h"
#include "lib/train/updates/method.h"

namespace comera::train {
namespace {

using engine::ParameterState;
using layers::StepState;
using layers::Walk;

bool is_weight(const Parameter& parameter) { return parameter.role != layers::Role::diagonal; }

class Adagrad final : public Method {
 public:
  bool takes(const Parameter& parameter, bool) const override { return is_weight(parameter); }
  // Sums that never shrink would mix the gradients of all projections so far.
  void check(const Parameter& weight) const override { require_whole_gradient(weight, "adagrad"); }

  std::vector<ParameterState> state() const override {
    return {{"square_sum", [](const Parameter& parameter) { return parameter.gradient_shape(); }}};
  }

  void run(Walk& walk, StepState* state, std::span<const Target> targets, const States& states) override {
    tensors_.clear();
    for (const Target& t : targets)
      tensors_.push_back({t.count, t.value, t.gradient, states.of<void>(0, *t.parameter), t.scalars});
    walk.run(walk.backend().adagrad,
             {.tensors = tensors_.data(), .count = static_cast<int>(tensors_.size()), .scalars = &state->scalars});
  }

 private:
  std::vector<kernels::AdagradTensor> tensors_;
};

class Sgd final : public Method {
 public:
  bool takes(const Parameter& parameter, bool) const override { return is_weight(parameter); }
  std::vector<ParameterState> state() const override { return {}; }

  void run(Walk& walk, StepState* state, std::span<const Target> targets, const States&) override {
    tensors_.clear();
    for (const Target& t : targets) tensors_.push_back({t.count, t.value, t.gradient, t.scalars});
    walk.run(walk.backend().sgd, {tensors_.data(), static_cast<int>(tensors_.size()), &state->scalars});
  }

 private:
  std::vector<kernels::SgdTensor> tensors_;
};

}  // namespace

std::unique_ptr<Method> make_adagrad() { return std::make_unique<Adagrad>(); }
std::unique_ptr<Method> make_sgd() { return std::make_unique<Sgd>(); }

}  // namespace comera::train
