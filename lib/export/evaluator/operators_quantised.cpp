// Evaluator operators for weights on grids. Reference: the operator definitions of ONNX (docs/Operators.md of
// onnx/onnx) and of ONNX Runtime (docs/ContribOperators.md of microsoft/onnxruntime).
#include <algorithm>
#include <map>

#include "lib/export/evaluator/values.h"

namespace comera::exporting {
namespace {

template <class T>
const ValueOf<T>& codes_of(const Call<T>& call, std::size_t index) {
  const ValueOf<T>& codes = call.in(index);
  if (codes.is_real) call.fail("codes were wanted");
  return codes;
}

// (x - zero point) scale. `block_size` neighbours along the axis share a scale.
template <class T>
ValueOf<T> dequantize_linear(const Call<T>& call) {
  const ValueOf<T>&codes = codes_of(call, 0), &scale = call.in(1);
  const std::int64_t block = call.integer("block_size", 0);
  const std::size_t axis = call.axis(call.integer("axis", 1), codes.dims.size());
  if (block < 1) call.fail("only blocks are evaluated");
  if (scale.dims.size() != codes.dims.size() || scale.dims[axis] != (codes.dims[axis] + block - 1) / block)
    call.fail("its scales do not fit its codes");
  const auto inner = count_of({codes.dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1, codes.dims.end()});
  ValueOf<T> out = ValueOf<T>::of_reals(codes.dims);
  for (std::int64_t i = 0; i < out.count(); ++i) {
    const std::int64_t line = i / inner / codes.dims[axis], along = i / inner % codes.dims[axis];
    const auto at = static_cast<std::size_t>((line * scale.dims[axis] + along / block) * inner + i % inner);
    const auto code = static_cast<std::size_t>(i);
    const std::int64_t zero = call.has(2) ? codes_of(call, 2).integers.at(at) : 0;
    out.reals[code] = static_cast<T>(codes.integers[code] - zero) * scale.reals.at(at);
  }
  return out;
}

// A [.., K] times the transpose of B [N, blocks, bytes], whose codes count from the middle.
template <class T>
ValueOf<T> mat_mul_n_bits(const Call<T>& call) {
  const ValueOf<T>&a = call.in(0), &codes = codes_of(call, 1), &scales = call.in(2);
  const std::int64_t k = call.integer("K", 0), n = call.integer("N", 0), bits = call.integer("bits", 4),
                     block = call.integer("block_size", 0);
  if (call.has(3)) call.fail("zero points are not evaluated");
  if ((bits != 4 && bits != 8) || block < 1 || a.dims.empty() || a.dims.back() != k)
    call.fail("its sizes do not fit its input");
  const std::int64_t blocks = (k + block - 1) / block, bytes = block * bits / 8;
  if (codes.count() != n * blocks * bytes || scales.count() != n * blocks) call.fail("its sizes do not fit its codes");
  const auto weight = [&](std::int64_t o, std::int64_t i) {
    const std::int64_t at = o * blocks + i / block, in_block = i % block;
    const std::int64_t byte = codes.integers[static_cast<std::size_t>(at * bytes + in_block * bits / 8)];
    const std::int64_t code = bits == 8 ? byte : byte >> (in_block % 2 * 4) & 15;
    return static_cast<T>(code - (1 << (bits - 1))) * scales.reals[static_cast<std::size_t>(at)];
  };
  Dims dims = a.dims;
  dims.back() = n;
  ValueOf<T> out = ValueOf<T>::of_reals(dims);
  const std::int64_t rows = a.count() / k;
  std::vector<T> line(static_cast<std::size_t>(k));
  for (std::int64_t o = 0; o < n; ++o) {
    for (std::int64_t i = 0; i < k; ++i) line[static_cast<std::size_t>(i)] = weight(o, i);
    for (std::int64_t r = 0; r < rows; ++r) {
      T sum = 0;
      for (std::int64_t i = 0; i < k; ++i)
        sum += a.reals[static_cast<std::size_t>(r * k + i)] * line[static_cast<std::size_t>(i)];
      out.reals[static_cast<std::size_t>(r * n + o)] = sum;
    }
  }
  return out;
}

// With one number on the right.
template <class T, class Combine>
ValueOf<T> with_number(const Call<T>& call, const Combine& combine) {
  ValueOf<T> out = codes_of(call, 0);
  const ValueOf<T>& right = codes_of(call, 1);
  if (right.count() != 1) call.fail("one number was wanted on its right");
  for (std::int64_t& value : out.integers) value = combine(value, right.integers[0]);
  return out;
}

template <class T>
ValueOf<T> bitwise_and(const Call<T>& call) {
  return with_number(call, [](std::int64_t a, std::int64_t b) { return a & b; });
}

template <class T>
ValueOf<T> bit_shift(const Call<T>& call) {
  const onnx::AttributeProto* direction = call.attribute("direction");
  if (!direction || direction->s() != "RIGHT") call.fail("only shifts to the right are evaluated");
  return with_number(call, [](std::int64_t a, std::int64_t b) { return a >> b; });
}

}  // namespace

template <class T>
Operator<T> find_quantised(const std::string& op) {
  static const std::map<std::string, Operator<T>> all{{"DequantizeLinear", dequantize_linear<T>},
                                                      {"MatMulNBits", mat_mul_n_bits<T>},
                                                      {"BitwiseAnd", bitwise_and<T>},
                                                      {"BitShift", bit_shift<T>}};
  const auto found = all.find(op);
  return found == all.end() ? nullptr : found->second;
}

template Operator<float> find_quantised<float>(const std::string& op);
template Operator<double> find_quantised<double>(const std::string& op);

}  // namespace comera::exporting
