// Time of the calls of replayed walks, for the bench.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace comera::plan {

// Calls in a row that a device has recorded, as a step does, so that the host's time does not count.
using CallGraph = std::unique_ptr<void, void (*)(void*)>;
// The call must have run before: its first run loads kernels, which a recording refuses. Null after a failure.
CallGraph record_calls(const kernels::Device& device, const kernels::Context& context, int calls,
                       const std::function<kernels::Status()>& call, kernels::Status& status);

// On the host a call is timed as it runs. On a device it runs for the walk, and is then repeated in a graph for its
// time; that changes what it accumulates, so the results of a profiled walk are not those of the model.
class Profile {
 public:
  struct Call {
    const char* op = nullptr;
    std::string shape;  // empty on the host, whose rows are per op
    double flops = 0;
    bool repeats = true;
  };
  struct Row {
    std::string op, shape;
    std::int64_t calls = 0;
    double seconds = 0, flops = 0;  // of all calls
  };
  static constexpr int calls_in_graph = 20, launches = 3;

  kernels::Status time(const kernels::Device& device, const kernels::Context& context, const Call& call,
                       const std::function<kernels::Status()>& run);
  const std::vector<Row>& rows() const { return rows_; }

 private:
  void add(const Call& call, double seconds);

  std::vector<Row> rows_;
};

}  // namespace comera::plan
