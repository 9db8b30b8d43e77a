#include "tests/kernels/simd/probe.h"

#include "kernels/cpu/common/simd.h"

namespace comera::kernels::COMERA_CPU {
namespace {

F apply(SimdFunction f, F x) {
  switch (f) {
    case SimdFunction::exp: return exp(x);
    case SimdFunction::erf: return erf(x);
    case SimdFunction::tanh: return tanh(x);
    case SimdFunction::sigmoid: return sigmoid(x);
    case SimdFunction::complement: return logistic(x).complement;
    case SimdFunction::below: return normal(x).below;
    case SimdFunction::gelu: return gelu(x);
    case SimdFunction::gelu_derivative: return gelu_derivative(x);
    case SimdFunction::silu: return silu(x);
    case SimdFunction::silu_derivative: return silu_derivative(x);
    case SimdFunction::tanh_derivative: return tanh_derivative(x);
    case SimdFunction::gelu_tanh: return gelu_tanh(x);
    case SimdFunction::gelu_tanh_derivative: return gelu_tanh_derivative(x);
  }
  return x;
}

}  // namespace

void simd_apply(SimdFunction f, const float* x, float* y, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + F::width <= count; i += F::width) store(y + i, apply(f, load(x + i)));
  store(y + i, apply(f, load(x + i, count - i)), count - i);
}

void simd_sums(const float* x, std::int64_t count, float* total, float* largest, double* squares) {
  F s = zero(), m = set(-3.4e38f);
  DoubleSum q;
  for (std::int64_t i = 0; i < count; i += F::width) {  // full vectors only
    s = s + load(x + i);
    m = max(m, load(x + i));
    q.add_product(load(x + i), load(x + i));
  }
  *total = sum(s);
  *largest = max_lane(m);
  *squares = q.total();
}

}  // namespace comera::kernels::COMERA_CPU
