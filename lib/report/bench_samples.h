// Rows of a bench, and the clock that fills them: repeated samples, their spread, the energy that went into them.
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
Spread spread_of(std::vector<double> samples);  // at least one

struct BenchRow {
  std::string work;        // "step", or the name of an op; "other" is what the ops do not cover
  std::int64_t calls = 1;  // per step
  Spread ms;
  std::string isa = "";                                 // instruction set, or kind of device
  double peak_gflops = 0;                               // of the machine under it, where it is not the report's
  double flops = 0;                                     // per step, multiplications and additions of the products alone
  double moved_bytes = 0;                               // the least that must be moved, each operand once; 0: not known
  std::optional<std::uint64_t> peak_bytes;              // growth of the process since before the first arena
  std::optional<double> joules;                         // per step, all packages, or the device
  std::optional<std::int64_t> launches = std::nullopt;  // per step: calls of a device that its graph holds
};

struct BenchOptions {
  int warmup = 2, repetitions = 5;
  std::int64_t batch = 32, length = 128;
  std::uint64_t seed = 1;
  bool parts = true;  // rows of a step's ops, too
};

// Calls `sample`, which answers the milliseconds of one step, for the warm-up, then as often as asked and, on a device,
// for a second at least: the counters of its energy tick that slowly.
BenchRow time_samples(const kernels::Device& device, const BenchOptions& options, std::string work,
                      const std::function<double()>& sample);

// Random numbers that are the same everywhere; not part of any result.
std::uint64_t next_random(std::uint64_t& state);

}  // namespace comera::report
