#include "lib/engine/device_steps.h"

#include <algorithm>
#include <cstring>

#include "lib/core/error.h"
#include "lib/engine/memory_table.h"

namespace comera::engine {

PinnedMemory::PinnedMemory(const kernels::Backend& backend, std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  data_ = {static_cast<std::byte*>(backend.device.allocate_pinned(bytes)), backend.device.release_pinned};
  if (!data_)
    fail_run("[memory] {} bytes of pinned memory for batches on their way to the device cannot be allocated: {}", bytes,
             backend.device.failure());
}

void DeviceSteps::check(kernels::Status status, const char* what) const {
  if (status != kernels::Status::ok)
    fail_run("[{}] {} failed: {}", machine_.backend->name, what, machine_.backend->device.failure());
}

void DeviceSteps::set_inputs(std::byte* places, std::size_t bytes) {
  forget();
  inputs_ = places;
  if (bytes > input_bytes_) pinned_ = PinnedMemory(*machine_.backend, (slots + 2) * bytes);
  input_bytes_ = std::max(input_bytes_, bytes);
}

void DeviceSteps::wait() {
  check(machine_.backend->device.wait(context()), "waiting for the device");
  arrived();
}

// Also drops inputs that were sent ahead, because their buffer may be freed.
void DeviceSteps::forget() {
  if (ahead_.bytes > 0 && machine_.backend->device.join_copies(context()) == kernels::Status::ok)
    machine_.backend->device.wait(context());
  ahead_.bytes = 0;
  for (const auto& [key, graph] : graphs_) machine_.backend->device.release_graph(graph);
  graphs_.clear();
  run_.clear();
  driver_memory_.graphs = 0;
  graph_calls_ = 0;
}

// Waits only if a step has more micro-batches than there are slots.
std::byte* DeviceSteps::next_slot() {
  if (pending_ == slots) wait();
  return pinned_.data() + pending_++ * input_bytes_;
}

void DeviceSteps::count_modules(const std::function<void()>& f) {
  const kernels::Device& device = machine_.backend->device;
  const std::size_t before = free_on(device);
  f();
  driver_memory_.modules += before - std::min(before, free_on(device));
}

void DeviceSteps::upload(const std::byte* from, std::size_t bytes) {
  if (bytes > 0) check(machine_.backend->memory.upload(context(), place(place_), from, bytes), "sending a batch");
}

void DeviceSteps::run(const Key& key, plan::Inputs& inputs, const Body& body) {
  staged_.resize(std::max(staged_.size(), inputs.bytes()));
  inputs.copy(staged_.data());
  upload(staged_.data(), inputs.bytes());
  inputs.bind_to_copy(place(place_));
  if (!run_first(key, body)) body();
}

// Only the first run reads the driver's free memory, because that call takes as long as some kernels.
bool DeviceSteps::run_first(const Key& key, const Body& body) {
  if (!run_.insert(key).second) return false;
  count_modules(body);
  return true;
}

void* DeviceSteps::record(const Body& body) {
  const kernels::Device& device = machine_.backend->device;
  void* graph = nullptr;
  const std::size_t before = free_on(device);
  check(device.begin_graph(context()), "recording a step");
  try {
    body();
  } catch (...) {
    if (device.end_graph(context(), &graph, nullptr) == kernels::Status::ok) device.release_graph(graph);
    throw;
  }
  std::size_t calls = 0;
  check(device.end_graph(context(), &graph, &calls), "recording a step");
  graph_calls_ = std::max(graph_calls_, calls);
  driver_memory_.graphs += before - std::min(before, free_on(device));
  return graph;
}

void DeviceSteps::send_ahead(const plan::Inputs& inputs) {
  ahead_.slot = 1 - ahead_.slot;
  ahead_.bytes = inputs.bytes();
  if (ahead_.bytes == 0) return;
  inputs.copy(ahead_slot());
  check(machine_.backend->device.upload_beside(context(), place(1 - place_), ahead_slot(), ahead_.bytes),
        "sending a batch ahead");
}

// Compares bytes to decide if the inputs sent ahead are those of this step.
void DeviceSteps::send(const std::byte* pinned, std::size_t bytes) {
  if (bytes == 0) return;
  const bool there = ahead_.bytes == bytes && std::memcmp(ahead_slot(), pinned, bytes) == 0;
  if (ahead_.bytes > 0) check(machine_.backend->device.join_copies(context()), "waiting for a batch");
  ahead_.bytes = 0;
  if (there) {
    place_ = 1 - place_;
  } else {
    upload(pinned, bytes);
  }
}

void DeviceSteps::launch(const Key& key, plan::Inputs& inputs, const Body& body) {
  std::byte* const slot = next_slot();
  inputs.copy(slot);
  send(slot, inputs.bytes());
  auto found = graphs_.find({key, place_});
  if (found == graphs_.end()) {
    inputs.bind_to_copy(place(place_));
    if (run_first(key, body)) return;
    found = graphs_.emplace(std::pair(key, place_), record(body)).first;
  }
  check(machine_.backend->device.launch_graph(context(), found->second), "launching a step");
}

}  // namespace comera::engine
