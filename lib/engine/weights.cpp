#include "lib/engine/weights.h"

#include <cstring>
#include <utility>

#include "lib/core/error.h"

namespace comera::engine {

HostBytes::HostBytes(const Machine& machine, const Tensor& tensor) : shape_(tensor) {
  if (machine.backend->memory.host_accessible) {
    bytes_ = {static_cast<const std::byte*>(tensor.data), tensor.bytes()};
    return;
  }
  copy_.resize(tensor.bytes());
  if (machine.backend->memory.download(machine.context(), copy_.data(), tensor.data, tensor.bytes()) !=
      kernels::Status::ok)
    fail_run("[{}] copying {} bytes to the host failed: {}", machine.backend->name, tensor.bytes(),
             machine.backend->device.failure());
  bytes_ = copy_;
}

Tensor HostBytes::tensor() const {
  Tensor host = shape_;
  host.data = const_cast<std::byte*>(bytes_.data());
  return host;
}

void write(const Machine& machine, const Tensor& tensor, std::span<const std::byte> bytes) {
  COMERA_CHECK(bytes.size() == tensor.bytes());
  if (bytes.empty()) return;
  if (machine.backend->memory.upload(machine.context(), tensor.data, bytes.data(), bytes.size()) != kernels::Status::ok)
    fail_run("[{}] copying {} bytes to the device failed: {}", machine.backend->name, bytes.size(),
             machine.backend->device.failure());
}

Weights::Weights(const Machine& machine, std::unique_ptr<Model> model, std::vector<ParameterState> state)
    : machine_(machine), model_(std::move(model)), state_(std::move(state)) {
  for (const Parameter& parameter : model_->parameters().all())
    for (const ParameterState& one : state_)
      state_slab_.add(one.name + "." + parameter.name, plan::Category::optimizer,
                      one.type.value_or(parameter.value.dtype), one.shape ? one.shape(parameter) : parameter.shape);
}

void Weights::allocate() {
  arena_ =
      plan::Arena(*machine_.backend, bytes(), state_.empty() ? "the weights" : "the weights and the optimiser's state");
  bind(arena_.data());
}

void Weights::bind(void* base) {
  base_ = static_cast<std::byte*>(base);
  model_->parameters().bind(base_);
  state_slab_.bind(base_ + model_->parameters().bytes());
  for (Parameter& parameter : model_->parameters().all())
    for (std::size_t which = 0; which < state_.size(); ++which)
      if (state_[which].bound) state_[which].bound(parameter, state(which, parameter.index));
}

void Weights::move_to_host() {
  const Tensor all{base_, DType::u8, {static_cast<std::int64_t>(bytes())}, -1};
  const HostBytes host(machine_, all);
  machine_ = {&kernels::reference_backend(), machine_.dtype, nullptr};
  allocate();
  write(machine_, {base_, DType::u8, all.shape, -1}, host.bytes());
}

void initialise(const Machine& machine, layers::Parameters& parameters, void* data, std::uint64_t seed) {
  if (machine.backend->memory.host_accessible) {
    parameters.bind(data);
    return parameters.initialise(seed);
  }
  std::vector<std::byte> host(parameters.bytes());
  parameters.bind(host.data());
  parameters.initialise(seed);
  parameters.bind(data);
  write(machine, {data, DType::u8, {static_cast<std::int64_t>(host.size())}, -1}, host);
}

void Weights::initialise(std::uint64_t seed) { engine::initialise(machine_, model_->parameters(), base_, seed); }

}  // namespace comera::engine
