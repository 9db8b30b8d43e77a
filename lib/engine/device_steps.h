// Runs steps on a device with its own queue. Inputs are copied there once per step from pinned memory. The first step
// of a batch shape runs call by call; the calls of the second one are recorded in a graph, which is launched from then
// on. The host waits for the device only when it reads the step's results. The inputs of the next step can be sent
// while a step runs: there are two input buffers on the device and a graph for each, so the running step does not read
// the buffer that is written.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "lib/plan/inputs.h"
#include "lib/plan/walk.h"

namespace comera::engine {

// Host memory from which a device copies asynchronously.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  PinnedMemory(const kernels::Backend& backend, std::size_t bytes);  // throws RunError if there is not enough memory

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

  // Bytes of two input buffers of at most `bytes` bytes each.
  static std::size_t input_places(std::size_t bytes) { return 2 * plan::aligned(bytes); }
  // Sets the input buffers on the device. Drops graphs that read the earlier buffers.
  void set_inputs(std::byte* places, std::size_t bytes);

  // Sends the inputs, binds them and runs the walks of `body`.
  using Body = std::function<void()>;
  using Key = std::pair<const plan::Plan*, bool>;
  void run(const Key& key, plan::Inputs& inputs, const Body& body);  // call by call
  // The first launch of a key runs call by call: the driver then loads kernels and libraries make their handles, which
  // a recording must not do. The second one records a graph and launches it, once per input buffer; later ones launch.
  void launch(const Key& key, plan::Inputs& inputs, const Body& body);
  // Calls f and counts the device memory that the driver takes meanwhile, for kernels that are called for the first
  // time. f must not keep device memory of its own.
  void count_modules(const std::function<void()>& f);
  // Sends inputs while a step runs. The next launch with the same inputs uses them.
  void send_ahead(const plan::Inputs& inputs);
  void wait();  // waits until the device has finished all its work
  // Marks all copies as finished: pinned memory may be written again.
  void arrived() { pending_ = 0; }
  // Device memory taken by the driver: for kernels loaded on their first call, for cuBLASLt itself, and for graphs.
  struct DriverMemory {
    std::size_t modules = 0, graphs = 0;
  };
  const DriverMemory& driver_memory() const { return driver_memory_; }
  // The largest number of calls in a graph. Each call costs device time.
  std::size_t graph_calls() const { return graph_calls_; }
  // For changed addresses: drops all graphs and inputs sent ahead. Later launches record and send them again. Waits for
  // the copies of inputs sent ahead.
  void forget();

 private:
  kernels::Context context() const { return machine_.context(); }
  void check(kernels::Status status, const char* what) const;
  std::byte* next_slot();
  std::byte* place(std::size_t which) const { return inputs_ + which * plan::aligned(input_bytes_); }
  std::byte* ahead_slot() const { return pinned_.data() + (slots + ahead_.slot) * input_bytes_; }
  void upload(const std::byte* from, std::size_t bytes);
  void send(const std::byte* pinned, std::size_t bytes);
  bool run_first(const Key& key, const Body& body);  // false, without a run, if the key has run before
  void* record(const Body& body);

  // Inputs that were sent ahead: their size, and their slot of two in pinned memory. The other slot may be written
  // meanwhile.
  struct Ahead {
    std::size_t bytes = 0, slot = 0;
  };

  static constexpr std::size_t slots = 4;  // copies in flight at a time, without those sent ahead
  plan::Machine machine_;
  std::byte* inputs_ = nullptr;
  std::size_t input_bytes_ = 0;
  std::size_t place_ = 0;  // index of the input buffer that the current step reads
  PinnedMemory pinned_;
  std::vector<std::byte> staged_;  // inputs of a run call by call, which takes no slot of pinned memory
  std::size_t pending_ = 0;
  Ahead ahead_;
  std::map<std::pair<Key, std::size_t>, void*> graphs_;  // by input buffer
  std::set<Key> run_;                                    // keys that were run call by call before
  DriverMemory driver_memory_;
  std::size_t graph_calls_ = 0;
};

}  // namespace comera::engine
