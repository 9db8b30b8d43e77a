// For programs that count what kernels do (tests/bench/record_step.cpp). The emulator tells them when a queued call
// begins and ends.
#pragma once

#include <cstddef>
#include <cstdint>

namespace comera::kernels::cuda::emulator {

struct Queued {
  const void* kernel = nullptr;  // null: a copy, a fill, or a product of the library; the grid is then another call's
  std::size_t shared_bytes = 0;  // dynamic shared memory
  std::size_t read = 0, written = 0;  // by a copy or a fill
};

enum class Moment : std::uint8_t { begin, end };
void set_watcher(void (*watcher)(Moment));
const Queued& latest_call();  // complete when it ends

// Totals of all threads since the program began.
struct Counts {
  std::uint64_t barriers = 0, exchanges = 0;
};
inline Counts counts;

}  // namespace comera::kernels::cuda::emulator
