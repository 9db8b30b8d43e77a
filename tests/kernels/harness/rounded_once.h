// Kernels in bf16 differ from f32 only in the elements that they read and write; sums are the same. From the same
// inputs, the bf16 results must equal the f32 results, rounded once.
#pragma once

#include "tests/kernels/harness/bounds.h"
#include "tests/kernels/harness/call.h"

namespace comera::kernels::cuda {

// The error of sums of `terms` products of normal numbers, whose magnitudes add up to less than terms * 16. On a GPU
// the two calls may contract and order them differently, so each has an error of its own.
constexpr double of_sums(int terms) { return 2 * terms * 0x1p-24 * (terms * 16); }
constexpr int most_terms = 70;

inline void check_near(const Floats& found, const Floats& exact, double unit, int terms = most_terms) {
  REQUIRE(found.size() == exact.size());
  test::Bounds bounds;
  for (std::size_t i = 0; i < found.size(); ++i)
    bounds.add(std::abs(static_cast<double>(found[i]) - exact[i]), unit * std::abs(exact[i]) + of_sums(terms));
  CHECK(bounds.hold("bf16", place().name, Catch::getResultCapture().getCurrentTestName()));
}

inline void check_same(const Floats& found, const Floats& wanted, const Floats& exact, double unit) {
  if (on_emulator()) CHECK(found == wanted);
  check_near(found, exact, unit);
}

// `work` returns the outputs of a call. Gradients of parameters are f32 for both dtypes, so their bytes are equal.
template <class Work>
void check_activations(const Work& work) {
  on_bf16_backends([&] {
    Call in_f32(DType::f32), in_bf16(DType::bf16);
    const Floats exact = work(in_f32);
    check_same(work(in_bf16), rounded(exact), exact, 0x1p-8);
  });
}
template <class Work>
void check_gradient(const Work& work) {
  on_bf16_backends([&] {
    Call in_f32(DType::f32), in_bf16(DType::bf16);
    const Floats exact = work(in_f32);
    check_same(work(in_bf16), exact, exact, 0);
  });
}
// For a kernel whose calls in bf16 add the same products in another order.
template <class Work>
void check_sums(int terms, const Work& work) {
  on_bf16_backends([&] {
    Call in_f32(DType::f32), in_bf16(DType::bf16);
    const Floats exact = work(in_f32);
    check_near(work(in_bf16), exact, 0, terms);
  });
}

}  // namespace comera::kernels::cuda
