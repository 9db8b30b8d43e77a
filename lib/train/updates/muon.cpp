// Muon, for the cores of linear weights in tensor-train or low-rank form, and for dense linear weights by name.
#include "kernels/muon.h"

#include "lib/plan/walk.h"
#include "lib/train/updates/method.h"

namespace comera::train {
namespace {

using engine::ParameterState;
using layers::StepState;
using layers::Walk;

kernels::MuonTensor matrix_of(const Shape& shape) {
  const std::int64_t left = shape[0], right = shape[shape.dims() - 1];
  return kernels::muon_core(left, shape.elements() / (left * right), right);
}

class Muon final : public Method {
 public:
  // A dense weight of a large model costs a GPU much more than its gradient does (kernels/cuda/muon.cu).
  bool takes(const Parameter& parameter, bool by_name) const override {
    return (parameter.role == layers::Role::core && !parameter.of_table) || (by_name && is_dense_linear(parameter));
  }
  void check(const Parameter& weight) const override { require_whole_gradient(weight, "muon"); }
  bool moves_by_rate() const override { return true; }

  std::vector<ParameterState> state() const override {
    return {{"momentum", [](const Parameter& parameter) { return parameter.gradient_shape(); }}};
  }

  void run(Walk& walk, StepState* state, std::span<const Target> targets, const States& states) override {
    tensors_.clear();
    for (const Target& t : targets) {
      kernels::MuonTensor& tensor = tensors_.emplace_back(matrix_of(t.parameter->shape));
      tensor.value = t.value, tensor.gradient = t.gradient;
      tensor.momentum = states.of<void>(0, *t.parameter);
      tensor.scalars = t.scalars, tensor.rate_scale = static_cast<float>(t.rate_scale);
    }
    walk.run(walk.backend().muon,
             {.tensors = tensors_.data(), .count = static_cast<int>(tensors_.size()), .scalars = &state->scalars});
  }

 private:
  std::vector<kernels::MuonTensor> tensors_;
};

}  // namespace

std::unique_ptr<Method> make_muon() { return std::make_unique<Muon>(); }

}  // namespace comera::train
