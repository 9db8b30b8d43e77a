#include "kernels/cuda/gpu/gemm_ways.h"

#include <catch2/catch.hpp>
#include <functional>
#include <vector>

namespace comera::kernels::cuda {
namespace {

alignas(512) char memory[1024];

Gemm product() {
  Gemm g;
  g.m = 48, g.n = 64, g.k = 32, g.lda = 32, g.ldb = 64, g.ldc = 64;
  g.a = memory, g.b = memory + 256, g.c = memory + 512;
  return g;
}

// Numbers the searches in the order of the requests.
struct Library {
  GemmWays<int> ways;
  int asked = 0;
  int way(const Gemm& g, bool tf32 = false) {
    return *ways.find(GemmKey(g, tf32), [&] { return std::optional<int>(++asked); });
  }
};

}  // namespace

TEST_CASE("library products: a repeated key is searched once") {
  Library library;
  Gemm g = product();
  REQUIRE(library.way(g) == 1);
  g.a = memory + 512, g.b = memory, g.c = memory + 256;  // other addresses with the same alignment
  g.accumulate = true;
  CHECK(library.way(g) == 1);
  g.in = g.out = DType::bf16;
  CHECK(library.way(g) == 2);
  CHECK(library.way(g, true) == 2);  // TF32 is part of the key only if both factors are f32
  CHECK(library.asked == 2);
}

TEST_CASE("library products: each change of the key causes a new search") {
  static const float scale = 1;
  const std::vector<std::function<void(Gemm&)>> changes = {
      [](Gemm& g) { ++g.m; },
      [](Gemm& g) { ++g.n; },
      [](Gemm& g) { ++g.k; },
      [](Gemm& g) { ++g.lda; },
      [](Gemm& g) { ++g.ldb; },
      [](Gemm& g) { ++g.ldc; },
      [](Gemm& g) { ++g.batch; },
      [](Gemm& g) { ++g.stride_a; },
      [](Gemm& g) { ++g.stride_b; },
      [](Gemm& g) { ++g.stride_c; },
      [](Gemm& g) { g.a = memory + 128; },
      [](Gemm& g) { g.b = memory + 16; },
      [](Gemm& g) { g.c = memory + 4; },
      [](Gemm& g) { g.transpose_a = true; },
      [](Gemm& g) { g.transpose_b = true; },
      [](Gemm& g) { g.in = DType::bf16; },
      [](Gemm& g) { g.out = DType::bf16; },
      [](Gemm& g) { g.a_scale = g.b_scale = &scale; },
      [](Gemm& g) { g.a_scale = g.b_scale = &scale, g.a_is_e5m2 = true; },
  };
  Library library;
  REQUIRE(library.way(product()) == 1);
  REQUIRE(library.way(product(), true) == 2);
  for (std::size_t i = 0; i < changes.size(); ++i) {
    CAPTURE(i);
    Gemm g = product();
    changes[i](g);
    CHECK(library.way(g) == static_cast<int>(i) + 3);
  }
}

TEST_CASE("library products: a failed search is repeated") {
  GemmWays<int> ways;
  const GemmKey key(product(), false);
  CHECK(!ways.find(key, [] { return std::optional<int>(); }));
  CHECK(ways.find(key, [] { return std::optional<int>(7); }) == 7);
  CHECK(ways.find(key, [] { return std::optional<int>(8); }) == 7);
}

TEST_CASE("library products: alignment is that of the address, up to 256 bytes") {
  for (const std::uint32_t bytes : {1u, 2u, 4u, 16u, 128u, 256u}) CHECK(alignment_of(memory + bytes) == bytes);
  CHECK(alignment_of(memory) == 256);
}

}  // namespace comera::kernels::cuda
