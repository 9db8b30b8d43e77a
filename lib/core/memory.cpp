#include "lib/core/memory.h"

#include <malloc.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

namespace comera {
namespace {

namespace fs = std::filesystem;

// The number after a word, in a file with a pair per line.
std::optional<std::uint64_t> number_after(const fs::path& path, const std::string& word) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t number = 0;
    if (words >> name >> number && name == word) return number;
  }
  return std::nullopt;
}

// "VmHWM:     1234 kB" -> bytes; 0 without the line.
std::uint64_t kilobytes_of(const fs::path& path, const char* word) {
  return number_after(path, word).value_or(0) * 1024;
}

// The number in a file; none for "max".
std::optional<std::uint64_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

// The names of a version of control groups.
struct Groups {
  fs::path root;
  const char *limit, *used, *file_pages;
};

void apply_limit(const fs::path& folder, const Groups& groups, FreeMemory& memory) {
  const auto limit = number_in(folder / groups.limit), used = number_in(folder / groups.used);
  if (!limit || !used || *limit >= memory.total) return;
  const std::uint64_t reclaimable = number_after(folder / "memory.stat", groups.file_pages).value_or(0);
  const std::uint64_t needed = *used - std::min(*used, reclaimable), left = *limit - std::min(*limit, needed);
  if (left < memory.free) memory = {left, *limit};
}

}  // namespace

std::uint64_t peak_memory() { return kilobytes_of("/proc/self/status", "VmHWM:"); }
std::uint64_t current_memory() { return kilobytes_of("/proc/self/status", "VmRSS:"); }
std::uint64_t machine_memory() { return kilobytes_of("/proc/meminfo", "MemTotal:"); }

void reset_peak_memory() { std::ofstream("/proc/self/clear_refs") << "5"; }

void return_freed_memory() {
  constexpr int large = 1 << 20;
  // An explicit value switches off glibc's dynamic threshold, which grows with freed blocks.
  mallopt(M_MMAP_THRESHOLD, large);
  mallopt(M_TRIM_THRESHOLD, large);
}

void trim_freed_memory() { malloc_trim(0); }

FreeMemory free_memory(const std::string& root) {
  const fs::path top = root, table = top / "proc/meminfo";
  const std::uint64_t free = kilobytes_of(table, "MemAvailable:");
  if (free == 0) return {};
  FreeMemory memory{free + kilobytes_of(table, "SwapFree:"),
                    kilobytes_of(table, "MemTotal:") + kilobytes_of(table, "SwapTotal:")};
  const Groups first{top / "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                     "total_inactive_file"},
      second{top / "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};
  std::ifstream file(top / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // "NUMBER:CONTROLLERS:PATH"
    const std::size_t colon = line.find(':'), path = line.find(':', colon + 1);
    if (path == std::string::npos) continue;
    const std::string controllers = "," + line.substr(colon + 1, path - colon - 1) + ",";
    const bool is_second = controllers == ",,";
    if (!is_second && controllers.find(",memory,") == std::string::npos) continue;
    const Groups& groups = is_second ? second : first;
    // Inside a container the path may be the host's, and only the top group is visible.
    for (fs::path group = fs::path(line.substr(path + 1)).relative_path(); !group.empty(); group = group.parent_path())
      apply_limit(groups.root / group, groups, memory);
    apply_limit(groups.root, groups, memory);
  }
  return memory;
}

}  // namespace comera
