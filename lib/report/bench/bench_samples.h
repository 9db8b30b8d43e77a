// Rows of a bench, and the clock that fills them: repeated samples, their spread, and their energy.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace comera::report {

struct Spread {
  double median = 0, min = 0, max = 0;
};
Spread spread_of(std::vector<double> samples);  // needs at least one sample

struct BenchRow {
  std::string work;        // "step" or the name of an op; "other" is the time outside the ops
  std::int64_t calls = 1;  // per step
  Spread ms;
  std::string shape = "";                   // of the op's calls, in rows of a device
  std::string isa = "";                     // instruction set, or kind of device
  double peak_gflops = 0;                   // of the machine for this row, if it differs from the report's
  double flops = 0;                         // per step, only multiplications and additions of the products
  double moved_bytes = 0;                   // least number of bytes to move, each operand once; 0: not known
  std::optional<std::uint64_t> peak_bytes;  // growth of the process since before the first arena
  std::optional<double> joules;             // per step, of all packages or of the device
  std::optional<std::int64_t> launches = std::nullopt;  // per step: calls in the device's graph
};

struct BenchOptions {
  int warmup = 2, repetitions = 5;
  std::int64_t batch = 32, length = 128;
  std::uint64_t seed = 1;
  bool parts = true;  // also rows for a step's ops
};

// Calls `sample`, which returns the milliseconds of one step, for the warm-up, then `repetitions` times. On a device it
// continues for at least a second, because the energy counter updates that slowly.
BenchRow time_samples(const kernels::Device& device, const BenchOptions& options, std::string work,
                      const std::function<double()>& sample);

// Returns reproducible random numbers. They are not part of any result.
std::uint64_t next_random(std::uint64_t& state);

}  // namespace comera::report
