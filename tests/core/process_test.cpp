#include "lib/core/process.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

using namespace comera;

TEST_CASE("process: memory grows when it is touched, and the peak can be reset") {
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
}

TEST_CASE("process: the machine has a name, processors and memory") {
  CHECK_FALSE(cpu_name().empty());
  CHECK(cpu_count() >= 1);
  CHECK(machine_memory() > current_memory());
  CHECK(utc_time().size() == std::strlen("2025-01-31T09:05:00Z"));
}
