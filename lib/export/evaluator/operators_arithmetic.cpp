// Evaluator operators that compute. Reference: the operator definitions of ONNX (docs/Operators.md of onnx/onnx).
#include <cblas.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "lib/export/evaluator/values.h"

namespace comera::exporting {
namespace {

// The broadcast shape. Shapes are aligned at their last axes; sizes are equal or 1.
template <class T>
Dims broadcast(const Call<T>& call, const Dims& a, const Dims& b) {
  Dims out(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) call.fail("its inputs do not broadcast");
    out[out.size() - 1 - i] = x == 1 ? y : x;
  }
  return out;
}

// For each element of `out` in order, the index of the element of `in` that broadcasts to it.
std::vector<std::int64_t> places(const Dims& in, const Dims& out) {
  std::vector<std::int64_t> strides(out.size(), 0);
  for (std::int64_t i = static_cast<std::int64_t>(in.size()) - 1, stride = 1; i >= 0;
       stride *= in[static_cast<std::size_t>(i)], --i)
    if (in[static_cast<std::size_t>(i)] != 1) strides[out.size() - in.size() + static_cast<std::size_t>(i)] = stride;
  std::vector<std::int64_t> found(static_cast<std::size_t>(count_of(out))), index(out.size(), 0);
  std::int64_t place = 0;
  for (std::int64_t& one : found) {
    one = place;
    for (std::size_t d = out.size(); d-- > 0;) {
      place += strides[d];
      if (++index[d] < out[d]) break;
      place -= strides[d] * out[d];
      index[d] = 0;
    }
  }
  return found;
}

template <class T, class Real, class Integer>
ValueOf<T> binary(const Call<T>& call, Real&& real, Integer&& integer) {
  const ValueOf<T>&a = call.in(0), &b = call.in(1);
  if (a.is_real != b.is_real) call.fail("its inputs are of different types");
  const Dims dims = broadcast(call, a.dims, b.dims);
  const std::vector<std::int64_t> in_a = places(a.dims, dims), in_b = places(b.dims, dims);
  ValueOf<T> out = ValueOf<T>::like(dims, a);
  for (std::size_t i = 0; i < in_a.size(); ++i) {
    const auto x = static_cast<std::size_t>(in_a[i]), y = static_cast<std::size_t>(in_b[i]);
    if (a.is_real)
      out.reals[i] = real(a.reals[x], b.reals[y]);
    else
      out.integers[i] = integer(a.integers[x], b.integers[y]);
  }
  return out;
}

template <class T, class Real>
ValueOf<T> unary(const Call<T>& call, Real&& real) {
  ValueOf<T> out = call.in(0);
  if (!out.is_real) call.fail("its input is not real");
  for (T& x : out.reals) x = real(x);
  return out;
}

template <class T>
ValueOf<T> add(const Call<T>& call) {
  return binary(
      call, [](T a, T b) { return a + b; }, [](std::int64_t a, std::int64_t b) { return a + b; });
}
template <class T>
ValueOf<T> sub(const Call<T>& call) {
  return binary(
      call, [](T a, T b) { return a - b; }, [](std::int64_t a, std::int64_t b) { return a - b; });
}
template <class T>
ValueOf<T> mul(const Call<T>& call) {
  return binary(
      call, [](T a, T b) { return a * b; }, [](std::int64_t a, std::int64_t b) { return a * b; });
}
template <class T>
ValueOf<T> div(const Call<T>& call) {
  return binary(
      call, [](T a, T b) { return a / b; },
      [&](std::int64_t a, std::int64_t b) { return b == 0 ? (call.fail("division by 0"), 0) : a / b; });
}
template <class T>
ValueOf<T> maximum(const Call<T>& call) {
  return binary(
      call, [](T a, T b) { return std::max(a, b); }, [](std::int64_t a, std::int64_t b) { return std::max(a, b); });
}
template <class T>
ValueOf<T> power(const Call<T>& call) {
  if (!call.in(0).is_real) call.fail("only reals are raised to a power");
  return binary(
      call, [](T a, T b) { return b == 2 ? a * a : std::pow(a, b); }, [](std::int64_t a, std::int64_t) { return a; });
}
template <class T>
ValueOf<T> both(const Call<T>& call) {
  if (call.in(0).is_real) call.fail("truth values were wanted");
  return binary(
      call, [](T a, T) { return a; }, [](std::int64_t a, std::int64_t b) { return std::int64_t{a != 0 && b != 0}; });
}
template <class T>
ValueOf<T> less_or_equal(const Call<T>& call) {
  if (call.in(0).is_real) call.fail("only integers are compared");
  return binary(
      call, [](T a, T) { return a; }, [](std::int64_t a, std::int64_t b) { return std::int64_t{a <= b}; });
}
template <class T>
ValueOf<T> equal(const Call<T>& call) {
  if (call.in(0).is_real) call.fail("only integers are compared");
  return binary(
      call, [](T a, T) { return a; }, [](std::int64_t a, std::int64_t b) { return std::int64_t{a == b}; });
}
template <class T>
ValueOf<T> square_root(const Call<T>& call) {
  return unary(call, [](T x) { return std::sqrt(x); });
}
template <class T>
ValueOf<T> error_function(const Call<T>& call) {
  return unary(call, [](T x) { return std::erf(x); });
}
template <class T>
ValueOf<T> hyperbolic_tangent(const Call<T>& call) {
  return unary(call, [](T x) { return std::tanh(x); });
}
template <class T>
ValueOf<T> sigmoid(const Call<T>& call) {
  return unary(call, [](T x) { return 1 / (1 + std::exp(-x)); });
}
template <class T>
ValueOf<T> cosine(const Call<T>& call) {
  return unary(call, [](T x) { return std::cos(x); });
}
template <class T>
ValueOf<T> sine(const Call<T>& call) {
  return unary(call, [](T x) { return std::sin(x); });
}
template <class T>
ValueOf<T> negate(const Call<T>& call) {
  return unary(call, [](T x) { return -x; });
}

void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b, float* c) {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k),
              1, a, static_cast<int>(k), b, static_cast<int>(n), 0, c, static_cast<int>(n));
}
void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const double* a, const double* b, double* c) {
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k),
              1, a, static_cast<int>(k), b, static_cast<int>(n), 0, c, static_cast<int>(n));
}

// Batch axes broadcast. The last two axes are the matrix product.
template <class T>
ValueOf<T> mat_mul(const Call<T>& call) {
  const ValueOf<T>&a = call.in(0), &b = call.in(1);
  if (!a.is_real || !b.is_real || a.dims.size() < 2 || b.dims.size() < 2) call.fail("it takes two matrices");
  const std::int64_t m = a.dims.end()[-2], k = a.dims.back(), n = b.dims.back();
  if (b.dims.end()[-2] != k) call.fail("the inner sizes of its matrices differ");
  const Dims batch_a(a.dims.begin(), a.dims.end() - 2), batch_b(b.dims.begin(), b.dims.end() - 2);
  Dims dims = broadcast(call, batch_a, batch_b);
  const std::vector<std::int64_t> in_a = places(batch_a, dims), in_b = places(batch_b, dims);
  dims.insert(dims.end(), {m, n});
  ValueOf<T> out = ValueOf<T>::of_reals(dims);
  for (std::size_t i = 0; i < in_a.size() && m * n * k > 0; ++i)
    multiply(m, n, k, a.reals.data() + in_a[i] * m * k, b.reals.data() + in_b[i] * k * n,
             out.reals.data() + static_cast<std::int64_t>(i) * m * n);
  return out;
}

// Applies `row` to each row of the last axis.
template <class T, class Row>
ValueOf<T> by_rows(const Call<T>& call, Row&& row) {
  ValueOf<T> out = call.in(0);
  if (!out.is_real || out.dims.empty()) call.fail("it takes reals");
  if (call.axis(call.integer("axis", -1), out.dims.size()) + 1 != out.dims.size())
    call.fail("only the last axis is evaluated");
  const std::int64_t columns = out.dims.back();
  for (std::int64_t i = 0; columns > 0 && i < out.count(); i += columns) row(out.reals.data() + i, columns);
  return out;
}

template <class T>
ValueOf<T> softmax(const Call<T>& call) {
  return by_rows(call, [](T* x, std::int64_t columns) {
    const T most = *std::max_element(x, x + columns);
    T sum = 0;
    for (std::int64_t j = 0; j < columns; ++j) sum += x[j] = std::exp(x[j] - most);
    for (std::int64_t j = 0; j < columns; ++j) x[j] /= sum;
  });
}

template <class T>
ValueOf<T> layer_normalization(const Call<T>& call) {
  const ValueOf<T>& gain = call.in(1);
  const ValueOf<T>* shift = call.has(2) ? &call.in(2) : nullptr;
  const onnx::AttributeProto* epsilon = call.attribute("epsilon");
  const T added = epsilon ? static_cast<T>(epsilon->f()) : static_cast<T>(1e-5F);
  if (call.in(0).dims.empty() || gain.count() != call.in(0).dims.back() || (shift && shift->count() != gain.count()))
    call.fail("its weights do not fit its input");
  return by_rows(call, [&](T* x, std::int64_t columns) {
    T mean = 0, variance = 0;
    for (std::int64_t j = 0; j < columns; ++j) mean += x[j];
    mean /= static_cast<T>(columns);
    for (std::int64_t j = 0; j < columns; ++j) variance += (x[j] - mean) * (x[j] - mean);
    const T scale = 1 / std::sqrt(variance / static_cast<T>(columns) + added);
    for (std::int64_t j = 0; j < columns; ++j) {
      const auto at = static_cast<std::size_t>(j);
      x[j] = (x[j] - mean) * scale * gain.reals[at] + (shift ? shift->reals[at] : 0);
    }
  });
}

// Sums over one axis, which is kept with size 1 or removed.
template <class T>
ValueOf<T> sum_over(const Call<T>& call, bool mean) {
  const ValueOf<T>& x = call.in(0);
  const onnx::AttributeProto* given = call.attribute("axes");
  if (!x.is_real || !(given ? given->ints_size() == 1 : call.has(1) && call.in(1).integers.size() == 1))
    call.fail("only one axis is evaluated");
  const std::size_t axis = call.axis(given ? given->ints(0) : call.in(1).integers[0], x.dims.size());
  Dims dims = x.dims;
  dims[axis] = 1;
  ValueOf<T> out = ValueOf<T>::of_reals(dims);
  const std::int64_t size = x.dims[axis],
                     inner = count_of({x.dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1, x.dims.end()});
  for (std::int64_t i = 0; i < out.count(); ++i) {
    T sum = 0;
    for (std::int64_t j = 0; j < size; ++j)
      sum += x.reals[static_cast<std::size_t>((i / inner * size + j) * inner + i % inner)];
    out.reals[static_cast<std::size_t>(i)] = mean ? sum / static_cast<T>(size) : sum;
  }
  if (call.integer("keepdims", 1) == 0) out.dims.erase(out.dims.begin() + static_cast<std::ptrdiff_t>(axis));
  return out;
}
template <class T>
ValueOf<T> reduce_mean(const Call<T>& call) {
  return sum_over(call, true);
}
template <class T>
ValueOf<T> reduce_sum(const Call<T>& call) {
  return sum_over(call, false);
}

template <class T>
ValueOf<T> where(const Call<T>& call) {
  const ValueOf<T>&condition = call.in(0), &a = call.in(1), &b = call.in(2);
  if (condition.is_real || a.is_real != b.is_real) call.fail("its inputs are of different types");
  const Dims dims = broadcast(call, broadcast(call, condition.dims, a.dims), b.dims);
  const std::vector<std::int64_t> in_c = places(condition.dims, dims), in_a = places(a.dims, dims),
                                  in_b = places(b.dims, dims);
  ValueOf<T> out = ValueOf<T>::like(dims, a);
  for (std::size_t i = 0; i < in_c.size(); ++i) {
    const bool first = condition.integers[static_cast<std::size_t>(in_c[i])] != 0;
    const auto place = static_cast<std::size_t>(first ? in_a[i] : in_b[i]);
    if (a.is_real)
      out.reals[i] = (first ? a : b).reals[place];
    else
      out.integers[i] = (first ? a : b).integers[place];
  }
  return out;
}

}  // namespace

template <class T>
Operator<T> find_arithmetic(const std::string& op) {
  static const std::map<std::string, Operator<T>> all{
      {"Add", add<T>},
      {"Sub", sub<T>},
      {"Mul", mul<T>},
      {"Div", div<T>},
      {"Max", maximum<T>},
      {"LessOrEqual", less_or_equal<T>},
      {"Equal", equal<T>},
      {"Pow", power<T>},
      {"And", both<T>},
      {"Cos", cosine<T>},
      {"Sin", sine<T>},
      {"Sqrt", square_root<T>},
      {"Erf", error_function<T>},
      {"Tanh", hyperbolic_tangent<T>},
      {"Sigmoid", sigmoid<T>},
      {"Neg", negate<T>},
      {"MatMul", mat_mul<T>},
      {"Softmax", softmax<T>},
      {"LayerNormalization", layer_normalization<T>},
      {"ReduceMean", reduce_mean<T>},
      {"ReduceSum", reduce_sum<T>},
      {"Where", where<T>},
  };
  const auto found = all.find(op);
  return found == all.end() ? nullptr : found->second;
}

template Operator<float> find_arithmetic<float>(const std::string& op);
template Operator<double> find_arithmetic<double>(const std::string& op);

}  // namespace comera::exporting
