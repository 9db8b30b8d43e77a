#include "kernels/cuda/ops.h"
#include "kernels/cuda/tall.h"
#include "kernels/cuda/tt_fused.h"
#include "kernels/tt_linear.h"

namespace comera::kernels::cuda {
namespace {

bool recomputes(const TtLinearBackward& a, const TtOutput& o) { return a.activation != Activation::none && !o.pre; }

// T1_i B_i, written at `to`.
Gemm right_product(const Context& context, std::int64_t tokens, std::int64_t width, const void* t1, const TtOutput& o, void* to, std::int64_t ld) {
  Gemm g;
  g.m = tokens, g.n = o.out, g.k = o.rank, g.in = g.out = context.dtype;
  g.a = static_cast<const char*>(t1) + static_cast<std::size_t>(o.offset) * size_of(context.dtype), g.lda = width;
  g.b = o.right, g.ldb = o.out, g.c = to, g.ldc = ld;
  return g;
}

// Two products and a pass for bias and activation, where the fused path does not fit.
template <class T>
Status forward_by_parts(const Context& context, const TtLinearForward& a) {
  void* const workspace = Parts(context.workspace).for_gemm();
  if (!a.t1_is_given) {
    Gemm g;
    g.m = a.tokens, g.n = a.width, g.k = a.in, g.in = g.out = context.dtype;
    g.a = a.x, g.lda = a.ldx, g.b = a.left, g.ldb = a.width, g.c = a.t1, g.ldc = a.width;
    const Status status = gemm(context, g, workspace);
    if (status != Status::ok) return status;
  }
  TallItems<FinishItem<T>> items;
  items.count = a.outputs;
  for (int i = 0; i < a.outputs; ++i) {
    const TtOutput& o = a.output[i];
    const Status status = gemm(context, right_product(context, a.tokens, a.width, a.t1, o, o.y, o.ldy), workspace);
    if (status != Status::ok) return status;
    items.item[i] = {static_cast<const float*>(o.bias), static_cast<T*>(o.y), static_cast<T*>(o.pre), o.out, o.ldy};
  }
  return finish(context, items, a.tokens, a.activation);
}

template <class T>
Status forward(const Context& context, const TtLinearForward& a) {
  const Status status = try_fused<T>(context, a);
  return status == Status::unsupported_shape ? forward_by_parts<T>(context, a) : status;
}

// d_pre of every output, where it is not dy itself, and the tiles of its column sums.
template <class T>
struct BackwardMemory {
  T* d_pre[max_outputs] = {};
  float* sums[max_outputs] = {};
  void* gemm = nullptr;
  std::size_t bytes = 0;

  BackwardMemory(const TtLinearBackward& a, void* workspace) {
    Parts parts(workspace);
    for (int i = 0; i < a.outputs; ++i) {
      if (a.activation != Activation::none) d_pre[i] = parts.take<T>(a.tokens * a.output[i].out);
      sums[i] = parts.take<float>(column_tiles(a.tokens) * a.output[i].out);
    }
    gemm = parts.for_gemm();
    bytes = parts.bytes();
  }
};

// Where `pre` was not kept it is computed again into the place of d_pre, without its bias.
template <class T>
Status slopes(const Context& context, const TtLinearBackward& a, const BackwardMemory<T>& memory) {
  TallItems<SlopeItem<T>> items;
  items.count = a.outputs;
  for (int i = 0; i < a.outputs; ++i) {
    const TtOutput& o = a.output[i];
    SlopeItem<T>& item = items.item[i];
    item.dy = static_cast<const T*>(o.dy), item.ld_dy = o.ldy, item.columns = o.out, item.d_pre = memory.d_pre[i], item.ld_d_pre = o.out;
    if (o.d_bias) item.sums = memory.sums[i], item.d_bias = static_cast<float*>(o.d_bias);
    if (a.activation == Activation::none) continue;
    item.pre = static_cast<const T*>(o.pre), item.ld_pre = o.ldy;
    if (!recomputes(a, o)) continue;
    const Status status = gemm(context, right_product(context, a.tokens, a.width, a.t1, o, memory.d_pre[i], o.out), memory.gemm);
    if (status != Status::ok) return status;
    item.pre = memory.d_pre[i], item.ld_pre = o.out, item.pre_bias = static_cast<const float*>(o.bias);
  }
  return slope(context, items, a.tokens, a.activation);
}

// U1_i = d_pre B_i^T; d_B_i += T1_i^T d_pre
Status through_right(const Context& context, const TtLinearBackward& a, const TtOutput& o, const void* d_pre, std::int64_t ld, void* workspace) {
  const std::size_t first = static_cast<std::size_t>(o.offset) * size_of(context.dtype);
  Gemm u;
  u.m = a.tokens, u.n = o.rank, u.k = o.out, u.in = u.out = context.dtype;
  u.a = d_pre, u.lda = ld, u.b = o.right, u.ldb = o.out, u.transpose_b = true, u.c = static_cast<char*>(a.u1) + first, u.ldc = a.width;
  Gemm d;
  d.m = o.rank, d.n = o.out, d.k = a.tokens, d.in = context.dtype, d.out = DType::f32, d.accumulate = true;
  d.a = static_cast<const char*>(a.t1) + first, d.lda = a.width, d.transpose_a = true, d.b = d_pre, d.ldb = ld, d.c = o.d_right, d.ldc = o.out;
  const Status status = gemm(context, u, workspace);
  return status == Status::ok ? gemm(context, d, workspace) : status;
}

template <class T>
Status backward(const Context& context, const TtLinearBackward& a) {
  const BackwardMemory<T> memory(a, context.workspace);
  Status status = slopes(context, a, memory);
  for (int i = 0; i < a.outputs && status == Status::ok; ++i) {
    const TtOutput& o = a.output[i];
    const bool own = memory.d_pre[i] != nullptr;
    status = through_right(context, a, o, own ? memory.d_pre[i] : o.dy, own ? o.out : o.ldy, memory.gemm);
  }
  if (status != Status::ok || !a.dx) return status;
  Gemm g;
  g.m = a.tokens, g.n = a.in, g.k = a.width, g.in = g.out = context.dtype, g.accumulate = a.accumulate_dx;
  g.a = a.u1, g.lda = a.width, g.b = a.left, g.ldb = a.width, g.transpose_b = true, g.c = a.dx, g.ldc = a.lddx;
  return gemm(context, g, memory.gemm);
}

std::size_t workspace_bytes(const Context&, const TtLinearForward&) {
  Parts parts;
  parts.for_gemm();
  return parts.bytes();
}
std::size_t workspace_bytes(const Context& context, const TtLinearBackward& a) {
  return context.dtype == DType::bf16 ? BackwardMemory<Bf16>(a, nullptr).bytes : BackwardMemory<float>(a, nullptr).bytes;
}

Status run(const Context& context, const TtLinearForward& a) {
  return with_element(context, [&](auto element) { return forward<decltype(element)>(context, a); });
}
Status run(const Context& context, const TtLinearBackward& a) {
  return with_element(context, [&](auto element) { return backward<decltype(element)>(context, a); });
}

}  // namespace

void add_tt_linear(Backend& b) {
  b.tt_linear_forward = {"tt_linear_forward", run, workspace_bytes};
  b.tt_linear_backward = {"tt_linear_backward", run, workspace_bytes};
}

}  // namespace comera::kernels::cuda
