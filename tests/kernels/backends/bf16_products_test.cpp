// Dense products in bf16 around and beyond the blocks and tiles of the kernels, against sums in double.
#include <cmath>

#include "kernels/linear.h"
#include "tests/kernels/harness/bounds.h"
#include "tests/kernels/harness/call.h"

namespace comera::kernels::cuda {
namespace {

struct Shape {
  std::int64_t m, n, k;
  bool transpose_a = false, transpose_b = false, accumulate = false;
  std::int64_t gap = 0;  // between rows
};

// The factors are exact in bf16, so a product of two is exact in float. Errors: a sum of k of them in any order, and
// one rounding of the result to bf16 where it is an activation.
void check(const Shape& s, bool rounds, const Floats& a, const Floats& b, const Floats& before, const Floats& found) {
  const std::int64_t lda = (s.transpose_a ? s.m : s.k) + s.gap, ldb = (s.transpose_b ? s.k : s.n) + s.gap;
  test::Bounds bounds;
  for (std::int64_t i = 0; i < s.m; ++i)
    for (std::int64_t j = 0; j < s.n; ++j) {
      const auto at = static_cast<std::size_t>(i * (s.n + s.gap) + j);
      double sum = s.accumulate ? before[at] : 0, magnitude = std::abs(sum);
      for (std::int64_t l = 0; l < s.k; ++l) {
        const double term =
            static_cast<double>(a[static_cast<std::size_t>(s.transpose_a ? l * lda + i : i * lda + l)]) *
            b[static_cast<std::size_t>(s.transpose_b ? j * ldb + l : l * ldb + j)];
        sum += term, magnitude += std::abs(term);
      }
      bounds.add(std::abs(found[at] - sum),
                 static_cast<double>(s.k + 1) * 0x1p-24 * magnitude + (rounds ? 0x1p-8 * std::abs(sum) : 0));
    }
  CHECK(bounds.hold("bf16 product", place().name,
                    std::to_string(s.m) + " x " + std::to_string(s.n) + " x " + std::to_string(s.k)));
}

Floats factor(std::int64_t rows, std::int64_t columns, std::int64_t gap, unsigned seed) {
  return numbers(rows * (columns + gap), seed);
}

void check_matmul(const Shape& s) {
  const Floats a = s.transpose_a ? factor(s.k, s.m, s.gap, 1) : factor(s.m, s.k, s.gap, 1);
  const Floats b = s.transpose_b ? factor(s.n, s.k, s.gap, 2) : factor(s.k, s.n, s.gap, 2);
  const Floats before = factor(s.m, s.n, s.gap, 3);
  on_bf16_backends([&] {
    Call call(DType::bf16);
    MatMul p;
    p.m = s.m, p.n = s.n, p.k = s.k, p.transpose_a = s.transpose_a, p.transpose_b = s.transpose_b;
    p.accumulate = s.accumulate;
    p.a = call.activations(a), p.lda = (s.transpose_a ? s.m : s.k) + s.gap;
    p.b = call.activations(b), p.ldb = (s.transpose_b ? s.k : s.n) + s.gap;
    p.c = call.activations(before), p.ldc = s.n + s.gap;
    call.run(backend().matmul, p);
    const Floats found = call.read_activations(p.c, before.size());
    check(s, true, a, b, before, found);
    for (std::int64_t i = 0; i + 1 < s.m; ++i)  // nothing is written between the rows
      for (std::int64_t j = s.n; j < s.n + s.gap; ++j)
        REQUIRE(found[static_cast<std::size_t>(i * (s.n + s.gap) + j)] ==
                before[static_cast<std::size_t>(i * (s.n + s.gap) + j)]);
  });
}

// The gradient of a weight: x^T g is added to floats.
void check_weight_gradient(std::int64_t in, std::int64_t out, std::int64_t tokens) {
  const Shape s{in, out, tokens, true, false, true};
  const Floats x = factor(tokens, in, 0, 1), g = factor(tokens, out, 0, 2), before = factor(in, out, 0, 3);
  on_bf16_backends([&] {
    Call call(DType::bf16);
    Product p;
    p.tokens = tokens, p.in = p.ldx = in, p.out = p.ldg = p.ld_result = out;
    p.x = call.activations(x), p.g = call.activations(g), p.result = call.f32(before);
    call.run(backend().product, p);
    check(s, false, x, g, before, call.read_f32(p.result, before.size()));
  });
}

}  // namespace

TEST_CASE("bf16 products, every backend: edges of tiles") {
  for (const std::int64_t m : {1, 3, 4, 15, 17, 32, 33})
    for (const std::int64_t n : {1, 15, 16, 17, 33})
      for (const std::int64_t k : {1, 2, 31, 32, 33}) check_matmul({m, n, k, false, false, (m + n + k) % 2 == 0, 3});
}

TEST_CASE("bf16 products, every backend: transposed factors") {
  for (const bool transpose_a : {false, true})
    for (const bool transpose_b : {false, true})
      for (const bool accumulate : {false, true}) {
        check_matmul({33, 130, 65, transpose_a, transpose_b, accumulate, 1});
        check_matmul({7, 47, 45, transpose_a, transpose_b, accumulate, 0});
      }
}

TEST_CASE("bf16 products, every backend: larger than the blocks") {
  for (const bool transpose : {false, true}) {
    check_matmul({37, 290, 1100, transpose, !transpose, true, 3});
    check_matmul({530, 20, 40, transpose, transpose, false, 0});
  }
}

TEST_CASE("bf16 products, every backend: gradients of weights") {
  check_weight_gradient(40, 24, 300);    // a sum per group of tokens
  check_weight_gradient(300, 40, 1100);  // the same, of more rows than a block
  check_weight_gradient(520, 270, 70);   // by tiles of the result
}

}  // namespace comera::kernels::cuda
