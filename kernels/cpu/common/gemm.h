// Small row-major products of floats, on the calling thread. libxsmm generates a kernel for each shape; the order of
// summation depends on the shape alone. OpenBLAS is the fallback on systems that forbid generated code.
#pragma once

#include <cblas.h>
#include <libxsmm.h>

#include <cstdint>
#include <cstring>

#include "kernels/cpu/common/isa.h"
#include "kernels/host/cpu_backend.h"

namespace comera::kernels::COMERA_CPU {

#if defined(__AVX512F__)
constexpr int xsmm_target = LIBXSMM_X86_AVX512_CORE;
#else
constexpr int xsmm_target = LIBXSMM_X86_AVX2;
#endif

struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t lda = 0, ldb = 0, ldc = 0;
  bool accumulate = false;   // c += instead of c =
  bool transpose_a = false;  // a is [k, m] instead of [m, k]
};

inline void blas_gemm(const GemmShape& s, const float* a, const float* b, float* c) {
  cblas_sgemm(CblasRowMajor, s.transpose_a ? CblasTrans : CblasNoTrans, CblasNoTrans, static_cast<int>(s.m),
              static_cast<int>(s.n), static_cast<int>(s.k), 1.0f, a, static_cast<int>(s.lda), b,
              static_cast<int>(s.ldb), s.accumulate ? 1.0f : 0.0f, c, static_cast<int>(s.ldc));
}

// A small product, c[m, n] = or += a b. The kernel is looked up once (about 20 ns if it exists) and then called for
// many blocks. All sizes are allowed, including 0.
class SmallGemm {
 public:
  explicit SmallGemm(const GemmShape& s) : shape_(s) {
    if (s.m <= 0 || s.n <= 0 || s.k <= 0) return;
    if (__atomic_load_n(&generated_target, __ATOMIC_ACQUIRE) != xsmm_target) generate_for(xsmm_target);
    // libxsmm is column major, so this is the transposed product with the operands exchanged.
    const int lda = static_cast<int>(s.ldb), ldb = static_cast<int>(s.lda), ldc = static_cast<int>(s.ldc);
    const float alpha = 1, beta = s.accumulate ? 1 : 0;
    const int flags = s.transpose_a ? LIBXSMM_GEMM_FLAG_TRANS_B : LIBXSMM_GEMM_FLAG_NONE;
    kernel_ = libxsmm_smmdispatch(static_cast<int>(s.n), static_cast<int>(s.m), static_cast<int>(s.k), &lda, &ldb, &ldc,
                                  &alpha, &beta, &flags, nullptr);
  }
  void operator()(const float* a, const float* b, float* c) const {
    if (kernel_) {
      kernel_(b, a, c);
    } else if (shape_.m > 0 && shape_.n > 0) {
      without_kernel(a, b, c);
    }
  }

 private:
  // Handles empty sums, and systems where no code can be generated.
  void without_kernel(const float* a, const float* b, float* c) const {
    if (shape_.k > 0) return blas_gemm(shape_, a, b, c);
    if (shape_.accumulate) return;
    for (std::int64_t i = 0; i < shape_.m; ++i)
      std::memset(c + i * shape_.ldc, 0, static_cast<std::size_t>(shape_.n) * sizeof(float));
  }

  GemmShape shape_;
  libxsmm_smmfunction kernel_ = nullptr;
};

}  // namespace comera::kernels::COMERA_CPU
