// AdamW with moments of 8 bits.
#include "kernels/adamw8.h"

#include "kernels/cpu/common/adamw_vector.h"
#include "kernels/cpu/ops.h"
#include "kernels/host/thread_pool.h"

namespace comera::kernels::COMERA_CPU {
namespace {

constexpr CodeBook first_book = make_code_book(true), second_book = make_code_book(false);

// Codes of F::width moments. The binary search of code_of() in all lanes.
template <bool is_signed>
I codes_of(F moment, float largest) {
  const CodeBook& book = is_signed ? first_book : second_book;
  const F x = largest > 0 ? moment / set(largest) : zero();
  I code = set(std::int32_t{0});
  for (std::int32_t step = 128; step > 0; step /= 2) {
    const F middle = gather(book.middle + step - 1, code);
    code = code + (as_int(keep(middle < x, as_float(set(std::int32_t{-1})))) & set(step));
  }
  if (is_signed) {
    const I back = as_int(keep(moment < zero(), as_float(set(std::int32_t{-1}))));
    const I is_zero = as_int(keep(code == set(std::int32_t{127}), as_float(set(std::int32_t{-1}))));
    code = code + (back & is_zero);
  }
  return code;
}

void update_block(const Adamw8Tensor& t, const AdamwVector& adamw, std::int64_t block) {
  const std::int64_t begin = block * adamw8_block, count = min(adamw8_block, t.count - begin);
  alignas(64) float first[adamw8_block], second[adamw8_block];
  alignas(64) std::uint8_t codes1[adamw8_block] = {}, codes2[adamw8_block] = {};
  __builtin_memcpy(codes1, t.codes1 + begin, static_cast<std::size_t>(count));
  __builtin_memcpy(codes2, t.codes2 + begin, static_cast<std::size_t>(count));
  const F old1 = set(t.largest1[block]), old2 = set(t.largest2[block]);
  F most1 = zero(), most2 = zero();
  float* value = static_cast<float*>(t.value) + begin;
  const float* gradient = static_cast<const float*>(t.gradient) + begin;
  sweep(0, count, [&](std::int64_t i, auto lanes) {
    const VectorMoments old{gather(first_book.value, load_bytes(codes1 + i)) * old1,
                            gather(second_book.value, load_bytes(codes2 + i)) * old2};
    auto [m, v] = adamw.new_moments(old, load(gradient + i, lanes));
    store(value + i, adamw.new_value({m, v}, load(value + i, lanes)), lanes);
    if constexpr (sizeof(lanes) > 1) m = keep(first_lanes(lanes.n), m), v = keep(first_lanes(lanes.n), v);
    most1 = max(abs(m), most1), most2 = max(v, most2);
    store(first + i, m), store(second + i, v);
  });
  t.largest1[block] = max_lane(most1), t.largest2[block] = max_lane(most2);
  for (std::int64_t i = 0; i < count; i += F::width) {
    store_bytes(codes1 + i, codes_of<true>(load(first + i), t.largest1[block]));
    store_bytes(codes2 + i, codes_of<false>(load(second + i), t.largest2[block]));
  }
  __builtin_memcpy(t.codes1 + begin, codes1, static_cast<std::size_t>(count));
  __builtin_memcpy(t.codes2 + begin, codes2, static_cast<std::size_t>(count));
}

Status run(const Context& context, const Adamw8& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  if (a.scalars->finite == 0) return Status::ok;
  for (int i = 0; i < a.count; ++i) {
    const Adamw8Tensor& t = a.tensors[i];
    const AdamwVector adamw(AdamwFactors(*t.scalars, a.scalars->gradient_scale));
    constexpr std::int64_t blocks_per_tile = 64;
    const std::int64_t blocks = adamw8_blocks(t.count);
    parallel_for(context, tiles_of(blocks, blocks_per_tile), [&](std::int64_t tile) {
      for (std::int64_t b = tile * blocks_per_tile; b < min(blocks, (tile + 1) * blocks_per_tile); ++b)
        update_block(t, adamw, b);
    });
  }
  return Status::ok;
}

}  // namespace

void bind(Op<Adamw8>& op) { op.run = run; }

}  // namespace comera::kernels::COMERA_CPU
