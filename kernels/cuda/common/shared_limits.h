// Limits of the dynamic shared memory of kernels. A launch with more than 48 KB needs a raised limit. The limit belongs
// to the kernel, not to the launch: a lower one would reject the calls of graphs that were recorded before. So it is
// set once per kernel and device, to the most that the device allows, and never lowered.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <utility>

#include "kernels/types.h"

namespace comera::kernels::cuda {

class SharedLimits {
 public:
  static constexpr std::size_t of_every_kernel = 48 * 1024;

  // `most` returns the largest limit of the kernel, `set` applies one. Both are called only for a limit above all
  // earlier ones. A launch with more than `most` gets its own size, so that the driver rejects it in its own words.
  template <class Most, class Set>
  Status raise(int device, const void* kernel, std::size_t bytes, const Most& most, const Set& set) {
    const std::scoped_lock lock(mutex_);
    std::size_t& limit = limits_.try_emplace({device, kernel}, of_every_kernel).first->second;
    if (bytes <= limit) return Status::ok;
    const std::size_t largest = most(), wanted = bytes < largest ? largest : bytes;
    const Status status = set(wanted);
    if (status == Status::ok) limit = wanted;
    return status;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<int, const void*>, std::size_t> limits_;
};

}  // namespace comera::kernels::cuda
