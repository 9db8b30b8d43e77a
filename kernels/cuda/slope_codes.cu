// Two-bit codes of slopes: one thread per byte, which has the codes of four neighbouring columns.
#include "kernels/cuda/common/runtime.h"
#include "kernels/cuda/common/vector.h"
#include "kernels/cuda/ops.h"
#include "kernels/slope_codes.h"

namespace comera::kernels::cuda {
namespace {

constexpr unsigned threads = 256;
constexpr int codes_of_byte = 4;

// The elements of a byte of codes.
struct BytePlace {
  std::int64_t first;  // index of the first element
  int count;           // 1 to 4

  COMERA_DEVICE BytePlace(std::int64_t byte, std::int64_t columns) {
    const std::int64_t row = byte / slope_row_bytes(columns), column = byte % slope_row_bytes(columns) * codes_of_byte;
    first = row * columns + column;
    count = columns - column < codes_of_byte ? static_cast<int>(columns - column) : codes_of_byte;
  }
};

// `whole`: the columns fill every byte, so four elements are read and written at once.
template <bool whole, class T>
COMERA_DEVICE void load_four(const T* from, int count, float (&to)[codes_of_byte]) {
  if constexpr (whole) {
    load_floats<codes_of_byte>(from, to);
  } else {
    for (int i = 0; i < count; ++i) to[i] = to_float(from[i]);
  }
}

// Bound by memory traffic: per element sizeof(T) bytes read and 1/4 written.
template <class T, bool whole>
__global__ void __launch_bounds__(threads) encode(const SlopeEncode a) {
  begin_kernel();
  for (std::int64_t byte = flat_index(); byte < a.rows * slope_row_bytes(a.columns); byte += flat_stride()) {
    const BytePlace at(byte, a.columns);
    float x[codes_of_byte];
    load_four<whole>(static_cast<const T*>(a.x) + at.first, at.count, x);
    unsigned codes = 0;
#pragma unroll
    for (int i = 0; i < codes_of_byte; ++i)
      if (whole || i < at.count)
        codes |= ((x[i] > a.table.cut[0]) + (x[i] > a.table.cut[1]) + (x[i] > a.table.cut[2])) << (2 * i);
    a.codes[byte] = static_cast<std::uint8_t>(codes);
  }
}

// Per element 2 sizeof(T) bytes and 1/4 byte of memory traffic.
template <class T, bool whole>
__global__ void __launch_bounds__(threads) apply(const SlopeApply a) {
  begin_kernel();
  for (std::int64_t byte = flat_index(); byte < a.rows * slope_row_bytes(a.columns); byte += flat_stride()) {
    const BytePlace at(byte, a.columns);
    const unsigned codes = a.codes[byte];
    float dy[codes_of_byte];
    load_four<whole>(static_cast<const T*>(a.dy) + at.first, at.count, dy);
    T* const dx = static_cast<T*>(a.dx) + at.first;
#pragma unroll
    for (int i = 0; i < codes_of_byte; ++i) {
      const unsigned code = codes >> (2 * i) & 3u;
      // No index into the table: it would move the table to local memory.
      const float low = code & 1u ? a.table.slope[1] : a.table.slope[0],
                  high = code & 1u ? a.table.slope[3] : a.table.slope[2];
      dy[i] *= code & 2u ? high : low;
      if (!whole && i < at.count) dx[i] = to_element<T>(dy[i]);
    }
    if constexpr (whole) store_floats<codes_of_byte>(dy, dx);
  }
}

template <class Args>
Launch grid(const Args& a) {
  return {grid_for(a.rows * slope_row_bytes(a.columns), threads), threads};
}

// True if four neighbouring elements of T can be accessed at once.
template <class T>
bool fours(std::int64_t columns, const void* x, const void* y) {
  const auto address = reinterpret_cast<std::uintptr_t>(x) | reinterpret_cast<std::uintptr_t>(y);
  return columns % codes_of_byte == 0 && address % (codes_of_byte * sizeof(T)) == 0;
}

Status run(const Context& context, const SlopeEncode& a) {
  return with_element(context, [&]<class T>(T) {
    return fours<T>(a.columns, a.x, nullptr) ? launch(context, grid(a), encode<T, true>, a)
                                             : launch(context, grid(a), encode<T, false>, a);
  });
}

Status run(const Context& context, const SlopeApply& a) {
  return with_element(context, [&]<class T>(T) {
    return fours<T>(a.columns, a.dy, a.dx) ? launch(context, grid(a), apply<T, true>, a)
                                           : launch(context, grid(a), apply<T, false>, a);
  });
}

}  // namespace

void bind(Op<SlopeEncode>& op) { op.run = run; }
void bind(Op<SlopeApply>& op) { op.run = run; }

}  // namespace comera::kernels::cuda
