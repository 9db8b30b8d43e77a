#include "lib/core/files/mapped_ranges.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <mutex>

#include "lib/core/error.h"

namespace comera {
namespace {

// Never freed, so that the signal handler can walk the list at any time. An entry whose range was removed is used
// again.
struct Range {
  std::atomic<std::uintptr_t> begin{0};
  std::size_t bytes = 0;
  std::string path;
  Range* next = nullptr;
};

std::atomic<Range*> first{nullptr};
std::mutex changing;
struct sigaction before {};

Range* find(std::uintptr_t address) {
  for (Range* range = first.load(std::memory_order_acquire); range; range = range->next)
    if (const std::uintptr_t begin = range->begin.load(std::memory_order_acquire);
        begin && address - begin < range->bytes)
      return range;
  return nullptr;
}

void say(const char* text, std::size_t length) {
  while (length > 0) {
    const ssize_t written = ::write(STDERR_FILENO, text, length);
    if (written <= 0) return;
    text += written;
    length -= static_cast<std::size_t>(written);
  }
}

// Uses only async-signal-safe calls.
void on_bus_error(int, siginfo_t* info, void*) {
  static constexpr char reason[] =
      ": cannot be read any more: it was cut while it was read, or its disk fails; leave files alone while they are "
      "used\n";
  const Range* range = find(reinterpret_cast<std::uintptr_t>(info->si_addr));
  if (!range) {
    // The faulting access repeats under the previous handler, which is responsible for it.
    ::sigaction(SIGBUS, &before, nullptr);
    return;
  }
  say("error: ", 7);
  say(range->path.data(), range->path.size());
  say(reason, sizeof reason - 1);
  ::_exit(1);
}

void catch_bus_errors() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, &before);
}

}  // namespace

void add_mapped_range(const void* begin, std::size_t bytes, const std::string& path) {
  const std::lock_guard lock(changing);
  Range* range = first.load();
  if (!range) catch_bus_errors();
  while (range && range->begin.load() != 0) range = range->next;
  const bool fresh = !range;
  if (fresh) range = new Range;
  range->bytes = bytes;
  range->path = path;
  range->begin.store(reinterpret_cast<std::uintptr_t>(begin), std::memory_order_release);
  if (!fresh) return;
  range->next = first.load();
  first.store(range, std::memory_order_release);
}

void remove_mapped_range(const void* begin) {
  const std::lock_guard lock(changing);
  if (Range* range = find(reinterpret_cast<std::uintptr_t>(begin))) range->begin.store(0, std::memory_order_release);
}

void require_whole_range(const void* begin) {
  const std::lock_guard lock(changing);
  const Range* range = find(reinterpret_cast<std::uintptr_t>(begin));
  struct stat status {};
  if (range && ::stat(range->path.c_str(), &status) == 0 && static_cast<std::uint64_t>(status.st_size) < range->bytes)
    fail_input("{}: has {} bytes, but had {} when it was opened; leave files alone while they are used", range->path,
               status.st_size, range->bytes);
}

}  // namespace comera
