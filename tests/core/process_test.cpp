#include "lib/core/process.h"

#include <catch2/catch.hpp>
#include <cstring>

using namespace comera;

TEST_CASE("process: the machine has a name and processors") {
  CHECK_FALSE(cpu_name().empty());
  CHECK(cpu_count() >= 1);
  CHECK(counted_cpus(1) == "1 processor");
  CHECK(counted_cpus(2) == "2 processors");
  CHECK(utc_time().size() == std::strlen("2025-01-31T09:05:00Z"));
}
