// TT linear layers: selects the fused kernels or separate products by the library.
#include <algorithm>

#include "kernels/cuda/common/product.h"
#include "kernels/cuda/common/tall.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/tt_linear/fp8_product.h"
#include "kernels/cuda/tt_linear/tt_backward.h"
#include "kernels/cuda/tt_linear/tt_fused.h"
#include "kernels/tt_linear.h"

namespace comera::kernels::cuda {
namespace {

bool recomputes(const TtLinearBackward& a, const TtOutput& o) { return a.activation != Activation::none && !o.pre; }

// T1_i B_i, written to `to`.
Gemm right_product(const Context& context, std::int64_t tokens, std::int64_t width, const void* t1, const TtOutput& o,
                   void* to, std::int64_t ld) {
  Gemm g;
  g.m = tokens, g.n = o.out, g.k = o.rank, g.in = g.out = context.dtype;
  g.a = static_cast<const char*>(t1) + static_cast<std::size_t>(o.offset) * size_of(context.dtype), g.lda = width;
  g.b = o.right, g.ldb = o.out, g.c = to, g.ldc = ld;
  return g;
}

// The fused passes compute f32 outside the tensor cores, and the library's TF32 is several times as fast. They do not
// support 8-bit floats.
bool by_library(const Context& context) { return context.tf32 || context.fp8; }

// Upper bound of the number of results of a product.
std::int64_t results_of(const TtLinearForward& a) {
  std::int64_t columns = a.width;
  for (int i = 0; i < a.outputs; ++i) columns = std::max(columns, a.output[i].out);
  return a.tokens * columns;
}
std::int64_t results_of(const TtLinearBackward& a) {
  std::int64_t columns = std::max(a.in, a.width);
  for (int i = 0; i < a.outputs; ++i) columns = std::max(columns, a.output[i].out);
  return std::max(a.tokens, a.width) * columns;
}

// Memory for the products of the forward.
struct ForwardMemory {
  Parts parts;
  void* gemm;
  Fp8Room room;

  ForwardMemory(const Context& context, const TtLinearForward& a, void* workspace)
      : parts(workspace), gemm(parts.for_gemm(results_of(a))) {
    std::int64_t widest = std::max(a.in, a.width), weights = a.in * a.width;
    for (int i = 0; i < a.outputs; ++i) weights = std::max(weights, a.output[i].rank * a.output[i].out);
    room = {context, parts, a.tokens * widest, weights};
  }
};

// Two products and a pass for bias and activation, if the fused path does not support the call.
template <class T>
Status forward_by_parts(const Context& context, const TtLinearForward& a) {
  const ForwardMemory memory(context, a, context.workspace);
  if (!a.t1_is_given) {
    Gemm g;
    g.m = a.tokens, g.n = a.width, g.k = a.in, g.in = g.out = context.dtype;
    g.a = a.x, g.lda = a.ldx, g.b = a.left, g.ldb = a.width, g.c = a.t1, g.ldc = a.width;
    const Status status = product<E4m3>(context, g, memory.room, memory.gemm);
    if (status != Status::ok) return status;
  }
  TallItems<FinishItem<T>> items;
  items.count = a.outputs;
  for (int i = 0; i < a.outputs; ++i) {
    const TtOutput& o = a.output[i];
    const Status status = product<E4m3>(context, right_product(context, a.tokens, a.width, a.t1, o, o.y, o.ldy),
                                        memory.room, memory.gemm);
    if (status != Status::ok) return status;
    items.item[i] = {static_cast<const float*>(o.bias), static_cast<T*>(o.y), static_cast<T*>(o.pre), o.out, o.ldy};
  }
  return finish(context, items, a.tokens, a.activation);
}

template <class T>
bool takes_one_pass(const Context& context, const TtLinearForward& a) {
  return !by_library(context) && a.path != Path::library && can_fuse<T>(a);
}

template <class T>
Status forward(const Context& context, const TtLinearForward& a) {
  return takes_one_pass<T>(context, a) ? try_fused<T>(context, a) : forward_by_parts<T>(context, a);
}

template <class T>
bool takes_passes(const Context& context, const TtLinearBackward& a) {
  return !by_library(context) && a.path != Path::library && can_fuse<T>(a);
}

// d_pre of every output, unless it is dy itself, and the column sums of its tiles.
template <class T>
struct BackwardMemory {
  T* d_pre[max_outputs] = {};
  float* sums[max_outputs] = {};
  void* gemm = nullptr;
  Fp8Room room;
  std::size_t bytes = 0;

  BackwardMemory(const Context& context, const TtLinearBackward& a, void* workspace) {
    Parts parts(workspace);
    for (int i = 0; i < a.outputs; ++i) {
      if (a.activation != Activation::none) d_pre[i] = parts.take<T>(a.tokens * a.output[i].out);
      sums[i] = parts.take<float>(column_tiles(a.tokens) * a.output[i].out);
    }
    gemm = parts.for_gemm(results_of(a));
    room = eight_bits(context, parts, a);
    bytes = parts.bytes();
  }

 private:
  static Fp8Room eight_bits(const Context& context, Parts& parts, const TtLinearBackward& a) {
    std::int64_t widest = a.width, weights = a.in * a.width;
    for (int i = 0; i < a.outputs; ++i) {
      widest = std::max(widest, std::max(a.output[i].out, a.output[i].rank));
      weights = std::max(weights, a.output[i].rank * a.output[i].out);
    }
    return {context, parts, a.tokens * widest, weights};
  }
};

// Computes d_pre and the bias gradients. If `pre` was not stored, it is recomputed without its bias in the buffer of
// d_pre.
template <class T>
Status slopes(const Context& context, const TtLinearBackward& a, const BackwardMemory<T>& memory) {
  TallItems<SlopeItem<T>> items;
  items.count = a.outputs;
  for (int i = 0; i < a.outputs; ++i) {
    const TtOutput& o = a.output[i];
    SlopeItem<T>& item = items.item[i];
    item.dy = static_cast<const T*>(o.dy), item.ld_dy = o.ldy, item.columns = o.out, item.d_pre = memory.d_pre[i],
    item.ld_d_pre = o.out;
    if (o.d_bias) item.sums = memory.sums[i], item.d_bias = static_cast<float*>(o.d_bias);
    if (a.activation == Activation::none) continue;
    item.pre = static_cast<const T*>(o.pre), item.ld_pre = o.ldy;
    if (!recomputes(a, o)) continue;
    const Status status = product<E4m3>(
        context, right_product(context, a.tokens, a.width, a.t1, o, memory.d_pre[i], o.out), memory.room, memory.gemm);
    if (status != Status::ok) return status;
    item.pre = memory.d_pre[i], item.ld_pre = o.out, item.pre_bias = static_cast<const float*>(o.bias);
  }
  return slope(context, items, a.tokens, a.activation);
}

// U1_i = d_pre B_i^T
Gemm left_columns(const Context& context, const TtLinearBackward& a, const TtOutput& o, const void* d_pre,
                  std::int64_t ld) {
  Gemm g;
  g.m = a.tokens, g.n = o.rank, g.k = o.out, g.in = g.out = context.dtype;
  g.a = d_pre, g.lda = ld, g.b = o.right, g.ldb = o.out, g.transpose_b = true;
  g.c = static_cast<char*>(a.u1) + static_cast<std::size_t>(o.offset) * size_of(context.dtype), g.ldc = a.width;
  return g;
}

// d_B_i += T1_i^T d_pre
Product right_gradient(const Context& context, const TtLinearBackward& a, const TtOutput& o, const void* d_pre,
                       std::int64_t ld) {
  const void* const t1 = static_cast<const char*>(a.t1) + static_cast<std::size_t>(o.offset) * size_of(context.dtype);
  return {a.tokens, o.rank, o.out, t1, a.width, d_pre, ld, o.d_right, o.out};
}

// d_A += x^T U1
Product left_gradient(const TtLinearBackward& a) {
  return {a.tokens, a.in, a.width, a.x, a.ldx, a.u1, a.width, a.d_left, a.width};
}

// Slopes, sums and each product separately, if the fused passes do not support the call.
template <class T>
Status backward_by_parts(const Context& context, const TtLinearBackward& a) {
  const BackwardMemory<T> memory(context, a, context.workspace);
  Status status = slopes(context, a, memory);
  for (int i = 0; i < a.outputs && status == Status::ok; ++i) {
    const TtOutput& o = a.output[i];
    const bool own = memory.d_pre[i] != nullptr;
    const void* const d_pre = own ? memory.d_pre[i] : o.dy;
    const std::int64_t ld = own ? o.out : o.ldy;
    status = product<E5m2>(context, left_columns(context, a, o, d_pre, ld), memory.room, memory.gemm);
    if (status == Status::ok)
      status = gemm(context, gemm_of(context, right_gradient(context, a, o, d_pre, ld)), memory.gemm);
  }
  // dx may replace x, so x is read first.
  if (status == Status::ok && a.x) status = gemm(context, gemm_of(context, left_gradient(a)), memory.gemm);
  if (status == Status::ok && a.dx) {
    Gemm g;
    g.m = a.tokens, g.n = a.in, g.k = a.width, g.in = g.out = context.dtype, g.accumulate = a.accumulate_dx;
    g.a = a.u1, g.lda = a.width, g.b = a.left, g.ldb = a.width, g.transpose_b = true, g.c = a.dx, g.ldc = a.lddx;
    status = product<E5m2>(context, g, memory.room, memory.gemm);
  }
  return status;
}

template <class T>
Status backward(const Context& context, const TtLinearBackward& a) {
  return takes_passes<T>(context, a) ? backward_in_passes<T>(context, a, cut_of<T>(a))
                                     : backward_by_parts<T>(context, a);
}

template <class T>
std::size_t backward_bytes(const Context& context, const TtLinearBackward& a) {
  if (!takes_passes<T>(context, a)) return BackwardMemory<T>(context, a, nullptr).bytes;
  Parts parts;
  const BackwardParts counted(a, cut_of<T>(a), parts, context.late_parts);
  return parts.bytes();
}

template <class T>
LateSums late_of(const Context& context, const TtLinearBackward& a, void* parts) {
  return takes_passes<T>(context, a) ? left_sums(a, cut_of<T>(a), parts) : LateSums();
}

std::size_t workspace_bytes(const Context& context, const TtLinearForward& a) {
  const bool one_pass =
      context.dtype == DType::bf16 ? takes_one_pass<Bf16>(context, a) : takes_one_pass<float>(context, a);
  return one_pass ? 0 : ForwardMemory(context, a, nullptr).parts.bytes();
}
std::size_t workspace_bytes(const Context& context, const TtLinearBackward& a) {
  return context.dtype == DType::bf16 ? backward_bytes<Bf16>(context, a) : backward_bytes<float>(context, a);
}

LateSums late(const Context& context, const TtLinearBackward& a, void* parts) {
  return context.dtype == DType::bf16 ? late_of<Bf16>(context, a, parts) : late_of<float>(context, a, parts);
}

bool fuses(const Context& context, const TtLinearForward& a) {
  return !by_library(context) && (context.dtype == DType::bf16 ? can_fuse<Bf16>(a) : can_fuse<float>(a));
}
bool fuses(const Context& context, const TtLinearBackward& a) {
  return !by_library(context) && (context.dtype == DType::bf16 ? can_fuse<Bf16>(a) : can_fuse<float>(a));
}

Status run(const Context& context, const TtLinearForward& a) {
  if (context.workspace_bytes < workspace_bytes(context, a)) return Status::workspace_too_small;
  return with_element(context, [&](auto element) { return forward<decltype(element)>(context, a); });
}
Status run(const Context& context, const TtLinearBackward& a) {
  if (context.workspace_bytes < workspace_bytes(context, a)) return Status::workspace_too_small;
  return with_element(context, [&](auto element) { return backward<decltype(element)>(context, a); });
}

}  // namespace

// This backend lacks the op: the layer then computes its output again into the memory of dx.
void bind(Op<TtOutputProduct>&) {}
void bind(Op<TtLinearForward>& op) { op.run = run, op.workspace_bytes = workspace_bytes, op.fuses = fuses; }
void bind(Op<TtLinearBackward>& op) {
  op.run = run, op.workspace_bytes = workspace_bytes, op.fuses = fuses, op.late = late;
}

}  // namespace comera::kernels::cuda
