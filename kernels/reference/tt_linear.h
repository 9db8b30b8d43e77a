// Reference of kernels/tt_linear.h: one factor at a time, through the dense ops.
#pragma once

#include "kernels/reference/linear.h"
#include "kernels/tt_linear.h"

namespace comera::kernels::reference {

template <class T>
const T* columns(const void* t1, std::int64_t offset) {
  return t1 ? in<T>(t1) + offset : nullptr;
}

template <class T>
void compute(const TtLinearForward& a) {
  if (!a.t1_is_given) {
    LinearForward first;
    first.tokens = a.tokens, first.in = a.in, first.out = a.width;
    first.x = a.x, first.ldx = a.ldx, first.weight = a.left, first.y = a.t1, first.ldy = a.width;
    compute<T>(first);
  }
  for (int i = 0; i < a.outputs; ++i) {
    const TtOutput& o = a.output[i];
    LinearForward second;
    second.tokens = a.tokens, second.in = o.rank, second.out = o.out;
    second.x = columns<T>(a.t1, o.offset), second.ldx = a.width, second.weight = o.right, second.bias = o.bias;
    second.activation = a.activation, second.y = o.y, second.pre = o.pre, second.ldy = o.ldy;
    compute<T>(second);
  }
}

// dy * act'(pre), contiguous [K, N_i].
template <class T>
std::vector<T> pre_gradient(const TtLinearBackward& a, const TtOutput& o) {
  std::vector<T> d_pre(a.tokens * o.out, T(0));
  const T* t1 = columns<T>(a.t1, o.offset);
  for (std::int64_t k = 0; k < a.tokens; ++k)
    for (std::int64_t n = 0; n < o.out; ++n) {
      T pre = o.pre ? in<T>(o.pre)[k * o.ldy + n] : o.bias ? in<T>(o.bias)[n] : T(0);
      if (!o.pre && a.activation != Activation::none)
        for (std::int64_t r = 0; r < o.rank; ++r) pre += t1[k * a.width + r] * in<T>(o.right)[r * o.out + n];
      const T& dy = in<T>(o.dy)[k * o.ldy + n];
      d_pre[k * o.out + n] = a.activation == Activation::none ? dy : dy * activation_derivative(a.activation, pre);
    }
  return d_pre;
}

template <class T>
void compute(const TtLinearBackward& a) {
  for (int i = 0; i < a.outputs; ++i) {
    const TtOutput& o = a.output[i];
    std::vector<T> d_pre = pre_gradient<T>(a, o);
    LinearBackward second;  // without activation, because d_pre is its dy
    second.tokens = a.tokens, second.in = o.rank, second.out = o.out;
    second.dy = d_pre.data(), second.lddy = o.out, second.weight = o.right;
    second.dx = out<T>(a.u1) + o.offset, second.lddx = a.width, second.d_bias = o.d_bias;
    compute<T>(second);
    Product right;
    right.tokens = a.tokens, right.in = o.rank, right.out = o.out;
    right.x = columns<T>(a.t1, o.offset), right.ldx = a.width, right.g = d_pre.data(), right.ldg = o.out;
    right.result = o.d_right, right.ld_result = o.out;
    compute<T>(right);
  }
  if (a.x) {
    Product left;
    left.tokens = a.tokens, left.in = a.in, left.out = a.width, left.x = a.x, left.ldx = a.ldx, left.g = a.u1,
    left.ldg = a.width;
    left.result = a.d_left, left.ld_result = a.width;
    compute<T>(left);
  }
  if (!a.dx) return;
  LinearBackward first;
  first.tokens = a.tokens, first.in = a.in, first.out = a.width;
  first.dy = a.u1, first.lddy = a.width, first.weight = a.left;
  first.dx = a.dx, first.lddx = a.lddx, first.accumulate_dx = a.accumulate_dx;
  compute<T>(first);
}

}  // namespace comera::kernels::reference
