// Steps on a device with a queue of its own: inputs go there in one copy from pinned memory, and the calls of a walk are recorded once per
// batch shape in a graph and launched again from then on. Nothing waits for the device before the step's results are read.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "lib/plan/plan.h"
#include "lib/plan/walk.h"

namespace comera::train {

// Memory of the host that a device copies from while the host goes on.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  PinnedMemory(const kernels::Backend& backend, std::size_t bytes);  // RunError when there is not enough

  std::byte* data() const { return data_.get(); }
  std::size_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<std::byte, void (*)(void*)> data_{nullptr, nullptr};
  std::size_t bytes_ = 0;
};

class DeviceSteps {
 public:
  explicit DeviceSteps(const plan::Machine& machine) : machine_(machine) {}
  ~DeviceSteps() { forget(); }
  DeviceSteps(const DeviceSteps&) = delete;
  DeviceSteps& operator=(const DeviceSteps&) = delete;

  // Where on the device inputs of at most so many bytes go. Graphs, which read the place before, are forgotten.
  void set_inputs(std::byte* inputs, std::size_t bytes);

  // Runs body's walks, which take their inputs from the stage in the pass that they are told.
  using Body = std::function<void(plan::InputStage*, plan::Pass)>;
  void run(const Body& body);  // call by call
  using Key = std::pair<const plan::Plan*, bool>;
  void launch(const Key& key, const Body& body);  // as the graph of that key, recorded the first time
  void wait();                                    // until the device has done everything that was asked for
  // It has: pinned memory may be written again.
  void arrived() { pending_ = 0; }
  // What the driver took of the device's memory while graphs were recorded: kernels that were loaded on their first call, and the graphs.
  struct DriverMemory {
    std::size_t modules = 0, graphs = 0;
  };
  const DriverMemory& driver_memory() const { return driver_memory_; }
  // Addresses have changed: graphs are recorded again when they are next asked for.
  void forget();

 private:
  kernels::Context context() const { return machine_.context(); }
  void check(kernels::Status status, const char* what) const;
  std::byte* next_slot();
  std::size_t free_bytes() const;
  void* record(const Body& body);

  static constexpr std::size_t slots = 4;  // copies on their way at a time
  plan::Machine machine_;
  std::byte* inputs_ = nullptr;
  std::size_t input_bytes_ = 0;
  PinnedMemory pinned_;
  std::size_t pending_ = 0;
  std::map<Key, void*> graphs_;
  DriverMemory driver_memory_;
};

}  // namespace comera::train
