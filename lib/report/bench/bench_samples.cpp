#include "lib/report/bench/bench_samples.h"

#include <algorithm>
#include <utility>

#include "lib/core/error.h"
#include "lib/core/process.h"
#include "lib/core/terminal/stop.h"
#include "lib/core/terminal/task_progress.h"
#include "lib/report/bench/energy.h"

namespace comera::report {
namespace {

constexpr double energy_seconds = 1;

}  // namespace

std::uint64_t next_random(std::uint64_t& state) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return state >> 33;
}

Spread spread_of(std::vector<double> samples) {
  COMERA_CHECK(!samples.empty());
  std::sort(samples.begin(), samples.end());
  const std::size_t half = samples.size() / 2;
  const double median = samples.size() % 2 ? samples[half] : (samples[half - 1] + samples[half]) / 2;
  return {median, samples.front(), samples.back()};
}

BenchRow time_samples(const kernels::Device& device, const BenchOptions& options, std::string work,
                      const std::function<double()>& sample) {
  const int warmup = options.warmup + (device.open ? 1 : 0);  // a device's first step runs call by call
  TaskProgress task("timing " + work, warmup + options.repetitions);
  const auto one = [&] {
    check_stop();
    const double ms_of_one = sample();
    task.advance();
    return ms_of_one;
  };
  for (int i = 0; i < warmup; ++i) one();
  std::vector<double> ms;
  EnergyMeter energy = EnergyMeter::of(device);
  const double start = wall_seconds();
  while (std::ssize(ms) < options.repetitions || (device.joules && wall_seconds() - start < energy_seconds))
    ms.push_back(one());
  BenchRow row{.work = std::move(work), .ms = spread_of(ms), .peak_bytes = {}, .joules = {}};
  if (const auto joules = energy.joules()) row.joules = *joules / static_cast<double>(ms.size());
  return row;
}

}  // namespace comera::report
