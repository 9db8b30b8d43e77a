// Steps on a device with a queue of its own: inputs go there in one copy from pinned memory, and the calls of a walk
// are recorded once per batch shape in a graph and launched again from then on. Nothing waits for the device before the
// step's results are read. The inputs of the next step may be sent while one runs: they go where that one does not
// read, so that two graphs take turns.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
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

  // Bytes of two places for inputs of at most so many bytes each.
  static std::size_t input_places(std::size_t bytes) { return 2 * plan::aligned(bytes); }
  // Sets their place on the device. Graphs that read the earlier places are forgotten.
  void set_inputs(std::byte* places, std::size_t bytes);

  // Runs body's walks, which take their inputs from the stage in the pass that they are told.
  using Body = std::function<void(plan::InputStage*, plan::Pass)>;
  using Key = std::pair<const plan::Plan*, bool>;
  void run(const Key& key, const Body& body);     // call by call
  void launch(const Key& key, const Body& body);  // as the graph of that key, recorded the first time
  // Calls f, which takes no memory of the device that it keeps: what its driver takes meanwhile goes to kernels called
  // for the first time.
  void count_modules(const std::function<void()>& f);
  // Sends the inputs of body's walks beside what runs; the next launch that has the same ones finds them there.
  void send_ahead(const Body& body);
  void wait();  // until the device has done everything that was asked for
  // It has: pinned memory may be written again.
  void arrived() { pending_ = 0; }
  // Device memory that the driver took: for kernels, which are loaded on their first call, for cuBLASLt itself, and for
  // graphs.
  struct DriverMemory {
    std::size_t modules = 0, graphs = 0;
  };
  const DriverMemory& driver_memory() const { return driver_memory_; }
  // The calls of the graph with most calls. Each call costs the device time.
  std::size_t graph_calls() const { return graph_calls_; }
  // Addresses change: graphs are recorded again when they are next asked for, and inputs sent ahead are sent again.
  // Nothing runs any more.
  void forget();

 private:
  kernels::Context context() const { return machine_.context(); }
  void check(kernels::Status status, const char* what) const;
  std::byte* next_slot();
  std::byte* place(std::size_t which) const { return inputs_ + which * plan::aligned(input_bytes_); }
  std::byte* ahead_slot() const { return pinned_.data() + (slots + ahead_.slot) * input_bytes_; }
  void send(const plan::InputStage& stage);
  void* record(const Body& body);

  // Inputs that were sent ahead: their bytes, and their slot of two in pinned memory. The other slot may be written
  // meanwhile.
  struct Ahead {
    std::size_t bytes = 0, slot = 0;
  };

  static constexpr std::size_t slots = 4;  // copies on their way at a time, those sent ahead apart
  plan::Machine machine_;
  std::byte* inputs_ = nullptr;
  std::size_t input_bytes_ = 0;
  std::size_t place_ = 0;  // which of the two is read now
  PinnedMemory pinned_;
  std::size_t pending_ = 0;
  Ahead ahead_;
  std::map<std::pair<Key, std::size_t>, void*> graphs_;  // by place
  std::set<Key> run_;                                    // what was run call by call before
  DriverMemory driver_memory_;
  std::size_t graph_calls_ = 0;
};

}  // namespace comera::train
