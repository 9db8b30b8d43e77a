#include "lib/core/process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <vector>

using namespace comera;

TEST_CASE("process: memory grows by what is touched, and the peak can start again") {
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

TEST_CASE("process: the first stop signal is a wish, the second ends the process") {
  const pid_t child = ::fork();
  if (child == 0) {
    catch_stop_signals();
    if (stop_signal() != 0) ::_exit(1);
    std::raise(SIGTERM);
    if (stop_signal() != SIGTERM) ::_exit(1);
    std::raise(SIGINT);
    ::_exit(2);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 128 + SIGINT);
}

TEST_CASE("process: SIGHUP stops as SIGTERM does, unless it is ignored; a file's size limit is a wish each time") {
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGHUP, SIG_IGN);  // as nohup does
    catch_stop_signals();
    std::raise(SIGHUP);
    if (stop_signal() != 0) ::_exit(1);
    std::signal(SIGHUP, SIG_DFL);
    catch_stop_signals();
    std::raise(SIGHUP);
    if (stop_signal() != SIGHUP) ::_exit(2);
    std::raise(SIGXFSZ);
    std::raise(SIGXFSZ);
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
