// Matrix products on a GPU by cuBLASLt, with one cached choice of algorithm per GemmKey.
#include "kernels/cuda/common/gemm.h"

#include <cublasLt.h>
#include <cuda_runtime.h>

#include "kernels/cuda/gpu/errors.h"
#include "kernels/cuda/gpu/gemm_ways.h"

namespace comera::kernels::cuda {
namespace {

// A cuBLASLt handle that is destroyed at the end of its scope.
template <class Handle, cublasStatus_t (*destroy)(Handle)>
struct Owned {
  Handle handle = nullptr;
  ~Owned() {
    if (handle) destroy(handle);
  }
};
using Operation = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

cublasLtHandle_t library() {
  static const cublasLtHandle_t handle = [] {
    cublasLtHandle_t made = nullptr;
    ok(cublasLtCreate(&made));
    return made;
  }();
  return handle;
}

cudaDataType_t type_of(DType dtype) { return dtype == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F; }

// Describes a stored matrix with `rows` rows of `columns` elements and leading dimension ld. The library is
// column-major, so the description is that of the transpose.
bool describe(Layout& layout, cudaDataType_t type, std::int64_t rows, std::int64_t columns, std::int64_t ld,
              std::int64_t batch, std::int64_t stride) {
  const int count = static_cast<int>(batch);
  return ok(cublasLtMatrixLayoutCreate(&layout.handle, type, static_cast<std::uint64_t>(columns),
                                       static_cast<std::uint64_t>(rows), ld)) &&
         ok(cublasLtMatrixLayoutSetAttribute(layout.handle, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                             sizeof count)) &&
         ok(cublasLtMatrixLayoutSetAttribute(layout.handle, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                             sizeof stride));
}

cudaDataType_t type_of_a(const Gemm& g) {
  return !g.eight_bits() ? type_of(g.in) : g.a_is_e5m2 ? CUDA_R_8F_E5M2 : CUDA_R_8F_E4M3;
}
cudaDataType_t type_of_b(const Gemm& g) { return g.eight_bits() ? CUDA_R_8F_E4M3 : type_of(g.in); }

bool describe_scales(Operation& operation, const Gemm& g) {
  if (!g.eight_bits()) return true;
  return ok(cublasLtMatmulDescSetAttribute(operation.handle, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &g.b_scale,
                                           sizeof g.b_scale)) &&
         ok(cublasLtMatmulDescSetAttribute(operation.handle, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &g.a_scale,
                                           sizeof g.a_scale));
}

bool describe(Operation& operation, const Gemm& g, bool tf32) {
  // Column-major: c^T = b^T a^T, so b is the first operand.
  const cublasOperation_t first = g.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                          second = g.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  return ok(cublasLtMatmulDescCreate(&operation.handle,
                                     tf32 && g.in == DType::f32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                     CUDA_R_32F)) &&
         ok(cublasLtMatmulDescSetAttribute(operation.handle, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first)) &&
         ok(cublasLtMatmulDescSetAttribute(operation.handle, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second));
}

// By default the library assumes pointers aligned to 256 bytes. It may then choose an algorithm with reads that are
// too wide for them.
bool describe_alignment(Preference& preference, const Gemm& g) {
  const std::uint32_t first = alignment_of(g.b), second = alignment_of(g.a), out = alignment_of(g.c);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t what, const std::uint32_t& bytes) {
    return ok(cublasLtMatmulPreferenceSetAttribute(preference.handle, what, &bytes, sizeof bytes));
  };
  return set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, first) &&
         set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, second) &&
         set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, out) && set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, out);
}

bool describe(Preference& preference, const Gemm& g) {
  const std::size_t bytes = workspace_of(g);
  // Allows no split sums, or parts of them joined by a separate kernel. The schemes that add in place have no fixed
  // order.
  const std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  return ok(cublasLtMatmulPreferenceCreate(&preference.handle)) &&
         ok(cublasLtMatmulPreferenceSetAttribute(preference.handle, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                                 sizeof bytes)) &&
         ok(cublasLtMatmulPreferenceSetAttribute(preference.handle, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                 &reductions, sizeof reductions));
}

// The library rejects k = 0, so this writes the zeros.
Status empty_sum(const Context& context, const Gemm& g) {
  const std::size_t size = size_of(g.out), pitch = static_cast<std::size_t>(g.ldc) * size;
  for (std::int64_t i = 0; i < g.batch && !g.accumulate; ++i)
    if (!ok(cudaMemset2DAsync(static_cast<char*>(g.c) + static_cast<std::size_t>(i * g.stride_c) * size, pitch, 0,
                              static_cast<std::size_t>(g.n) * size, static_cast<std::size_t>(g.m),
                              static_cast<cudaStream_t>(context.stream))))
      return Status::failed;
  return Status::ok;
}

// The product in the library's own descriptors.
struct Description {
  Operation operation;
  Layout a, b, c;

  bool make(const Gemm& g, bool tf32) {
    return describe(operation, g, tf32) && describe_scales(operation, g) &&
           describe(b, type_of_b(g), g.transpose_b ? g.n : g.k, g.transpose_b ? g.k : g.n, g.ldb, g.batch,
                    g.stride_b) &&
           describe(a, type_of_a(g), g.transpose_a ? g.k : g.m, g.transpose_a ? g.m : g.k, g.lda, g.batch,
                    g.stride_a) &&
           describe(c, type_of(g.out), g.m, g.n, g.ldc, g.batch, g.stride_c);
  }
};

// The library's first choice of algorithm; `any` is false if it has none.
struct Way {
  bool any = false;
  cublasLtMatmulAlgo_t algorithm{};
};

std::optional<Way> search(const Gemm& g, const Description& d) {
  Preference preference;
  if (!describe(preference, g) || !describe_alignment(preference, g)) return {};
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t searched =
      cublasLtMatmulAlgoGetHeuristic(library(), d.operation.handle, d.b.handle, d.a.handle, d.c.handle, d.c.handle,
                                     preference.handle, 1, &found, &count);
  if (searched == CUBLAS_STATUS_NOT_SUPPORTED) return Way{};
  if (!ok(searched)) return {};
  return Way{count > 0, found.algo};
}

// Caches the search: without a graph, every product would pay its cost on the host.
std::optional<Way> way_of(const Gemm& g, bool tf32, const Description& d) {
  static GemmWays<Way> ways;
  return ways.find(GemmKey(g, tf32), [&] { return search(g, d); });
}

}  // namespace

Status gemm(const Context& context, const Gemm& g, void* workspace) {
  if (g.m == 0 || g.n == 0 || g.batch == 0) return Status::ok;
  if (g.k == 0) return empty_sum(context, g);
  Description d;
  if (!library() || !d.make(g, context.tf32)) return Status::failed;
  const std::optional<Way> way = way_of(g, context.tf32, d);
  if (!way) return Status::failed;
  if (!way->any) return Status::unsupported_shape;
  const float one = 1, beta = g.accumulate ? 1 : 0;
  return status_of(cublasLtMatmul(library(), d.operation.handle, &one, g.b, d.b.handle, g.a, d.a.handle, &beta, g.c,
                                  d.c.handle, g.c, d.c.handle, &way->algorithm, workspace, workspace_of(g),
                                  static_cast<cudaStream_t>(context.stream)));
}

}  // namespace comera::kernels::cuda
