#include "lib/core/memory.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "tests/core/temporary_folder.h"

using namespace comera;

namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

// A root with 1,000 MiB, of which 600 are free, and 50 MiB of free swap space.
class Machine {
 public:
  Machine() {
    write("proc/meminfo",
          "MemTotal:        1024000 kB\nMemFree:  1 kB\nMemAvailable:     614400 kB\n"
          "SwapTotal:        102400 kB\nSwapFree:          51200 kB\n");
  }
  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  FreeMemory memory() const { return free_memory(folder_.path()); }

 private:
  TemporaryFolder folder_;
};

void check(const FreeMemory& memory, std::uint64_t free, std::uint64_t total) {
  CHECK(memory.free == free * mib);
  CHECK(memory.total == total * mib);
}

}  // namespace

TEST_CASE("memory: resident bytes grow when memory is touched, and their peak can be reset") {
  reset_peak_memory();
  const std::uint64_t before = peak_memory();
  REQUIRE(before >= current_memory() - (std::uint64_t{1} << 20));
  {
    std::vector<char> block(std::size_t{64} << 20);
    std::memset(block.data(), 1, block.size());
    CHECK(current_memory() >= before + (std::uint64_t{60} << 20));
  }
  CHECK(peak_memory() >= before + (std::uint64_t{60} << 20));
  reset_peak_memory();
  CHECK(peak_memory() < before + (std::uint64_t{60} << 20));
  CHECK(machine_memory() > current_memory());
}

TEST_CASE("free memory: that of the machine with its swap space") {
  const Machine machine;
  check(machine.memory(), 650, 1100);
  machine.write("proc/self/cgroup", "0::/\n");
  check(machine.memory(), 650, 1100);
  const FreeMemory here = free_memory();
  CHECK(here.free > 0);
  CHECK(here.total >= here.free);
}

TEST_CASE("free memory: no meminfo, no figure") {
  const TemporaryFolder empty;
  check(free_memory(empty.path()), 0, 0);
}

TEST_CASE("free memory: the least of the groups of version 2 counts, and its pages of files are free") {
  const Machine machine;
  machine.write("proc/self/cgroup", "0::/user/job\n");
  machine.write("sys/fs/cgroup/user/job/memory.max", "max\n");
  machine.write("sys/fs/cgroup/user/job/memory.current", "1048576\n");
  check(machine.memory(), 650, 1100);
  machine.write("sys/fs/cgroup/user/memory.max", std::to_string(200 * mib));
  machine.write("sys/fs/cgroup/user/memory.current", std::to_string(150 * mib));
  check(machine.memory(), 50, 200);
  machine.write("sys/fs/cgroup/user/memory.stat",
                "anon 5\nactive_file " + std::to_string(9 * mib) + "\ninactive_file " + std::to_string(30 * mib));
  check(machine.memory(), 80, 200);
  machine.write("sys/fs/cgroup/user/memory.current", std::to_string(250 * mib));  // above the limit
  check(machine.memory(), 0, 200);
  machine.write("sys/fs/cgroup/user/memory.max", "many");
  check(machine.memory(), 650, 1100);
}

TEST_CASE("free memory: groups of version 1, also where a container shows the top group alone") {
  const Machine machine;
  machine.write("proc/self/cgroup", "9:cpu,cpuacct:/host/path\n4:hugetlb,memory:/host/path\n0::/\n");
  machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(300 * mib));
  machine.write("sys/fs/cgroup/memory/memory.usage_in_bytes", std::to_string(100 * mib));
  check(machine.memory(), 200, 300);
  machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");  // none
  check(machine.memory(), 650, 1100);
}
