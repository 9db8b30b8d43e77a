#include "kernels/cast.h"

#include <catch2/catch.hpp>

#include "tests/kernels/harness/cases.h"

namespace comera::kernels::test {
namespace {

Case cast(const std::vector<std::int64_t>& counts) {
  Case c("cast");
  const auto named = [](const char* name, std::size_t i) { return name + std::to_string(i); };
  for (std::size_t i = 0; i < counts.size(); ++i) {
    c.name += " " + std::to_string(counts[i]);
    c.data(named("from", i), 1, counts[i]).empty(named("to", i), 1, counts[i]);
  }
  c.forward = [=](Run& r) {
    r.call(&Backend::cast, [&] {
      auto& tensors = *r.keep(std::vector<CastTensor>(counts.size()));
      for (std::size_t i = 0; i < counts.size(); ++i)
        tensors[i] = {counts[i], r.in(named("from", i)), r.out(named("to", i))};
      return Cast{tensors.data(), static_cast<int>(counts.size())};
    });
  };
  return c;
}

}  // namespace

// In f32 a cast is a copy. tests/kernels/backends/cuda_bf16_test.cpp tests the rounding.
static std::vector<Case> cast_cases() { return {cast({1}), cast({8, 0, 37, 70000}), cast({8192, 8193, 3})}; }

TEST_CASE("cast: every backend within the derived bound of the reference") { check_backends(cast_cases()); }
TEST_CASE("cast: the same bytes again and for any number of threads") { check_repeat(cast_cases()); }

}  // namespace comera::kernels::test
