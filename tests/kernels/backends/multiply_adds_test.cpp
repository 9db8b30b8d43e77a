#include <catch2/catch.hpp>
#include <chrono>

#include "kernels/host/cpu_backend.h"

using namespace comera::kernels;

TEST_CASE("multiply_adds: the count of FLOPs grows with the rounds and the width of a register, and so does the time") {
  CHECK(run_multiply_adds("v9", DType::f32, 1) == 0);
  CHECK(run_multiply_adds("v3", DType::bf16, 1) == 0);
  for (const char* isa : cpu_isas) {
    if (!cpu_supports(isa)) continue;
    CAPTURE(isa);
    const double one = run_multiply_adds(isa, DType::f32, 1);
    CHECK(run_multiply_adds(isa, DType::f32, 0) == 0);
    CHECK(run_multiply_adds(isa, DType::f32, 1000) == 1000 * one);
    CHECK(static_cast<int>(one) % (2 * 8) == 0);  // pairs of eight floats at least
    if (cpu_supports("v3")) CHECK(one >= run_multiply_adds("v3", DType::f32, 1));
    const auto seconds = [&](std::int64_t rounds) {
      const auto begin = std::chrono::steady_clock::now();
      run_multiply_adds(isa, DType::f32, rounds);
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    // A loop that the compiler removed would take no time: 2^22 rounds of at least ten instructions take milliseconds.
    CHECK(seconds(1 << 22) > 1e-3);
  }
  if (cpu_supports("v4bf16")) CHECK(run_multiply_adds("v4bf16", DType::bf16, 7) == 7.0 * 2 * 32 * 20);
  if (cpu_supports("v4amx")) CHECK(run_multiply_adds("v4amx", DType::bf16, 7) == 7.0 * 4 * 2 * 16 * 16 * 32);
}
