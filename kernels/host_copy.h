// Copies between the memory of a device and pinned host memory, beside the calls on its queue. There is a queue for
// copies to the host and one for copies to the device. A copy begins after the calls that were submitted before it, and
// later calls may run before it has ended: a HostJoin makes those that follow it wait. A copy has a ticket until it is
// joined, and must be joined before its memory is used otherwise and before the recording of a graph ends. A backend
// that computes on the host copies at once.
#pragma once

#include "kernels/types.h"

namespace comera::kernels {

constexpr int copy_tickets = 64;  // of each queue

enum class CopyTo : std::uint8_t { host, device };

struct HostCopy {
  CopyTo direction = CopyTo::host;
  int ticket = 0;
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;
};

struct HostJoin {
  CopyTo direction = CopyTo::host;
  int ticket = 0;
};

constexpr double flops(const HostCopy&) { return 0; }
constexpr double flops(const HostJoin&) { return 0; }

}  // namespace comera::kernels
