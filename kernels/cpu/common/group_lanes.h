// Numbers of a row restored from codes of groups of columns (kernels/group_codes.h).
#pragma once

#include <cstring>

#include "kernels/cpu/common/element.h"
#include "kernels/cpu/common/workspace.h"
#include "kernels/group_codes.h"

namespace comera::kernels::COMERA_CPU {

// Columns [first, first + count) of a row, all of one group: write(column, numbers, lanes) for each vector. `first` is
// even where two codes are in a byte.
template <class Write>
void restore_group(const GroupCodes& s, const std::uint8_t* codes, const std::uint16_t* ranges, std::int64_t row,
                   std::int64_t first, std::int64_t count, Write write) {
  const std::uint16_t* range = ranges + 2 * (row * s.groups() + first / code_group);
  const F least = set(bf16_value(range[0])), step = set(bf16_value(range[1]));
  const std::uint8_t* from = codes + row * s.row_bytes() + first * s.bits / 8;
  if (s.bits == 8 && count % F::width == 0) {  // no byte beyond the columns is read
    for (std::int64_t i = 0; i < count; i += F::width)
      write(first + i, fma(to_float(load_bytes(from + i)), step, least), F::width);
    return;
  }
  alignas(64) std::uint8_t of_group[code_group + F::width];
  if (s.bits == 8) {
    std::memcpy(of_group, from, static_cast<std::size_t>(count));
  } else {
    for (std::int64_t i = 0; i < (count + 1) / 2; ++i) {
      of_group[2 * i] = from[i] & 15;
      of_group[2 * i + 1] = from[i] >> 4;
    }
  }
  for (std::int64_t i = 0; i < count; i += F::width)
    write(first + i, fma(to_float(load_bytes(of_group + i)), step, least), min<std::int64_t>(F::width, count - i));
}

// Columns [first, first + count) of a row, into x. `first` is even where two codes are in a byte.
inline void restore_columns(const GroupCodes& s, const std::uint8_t* codes, const std::uint16_t* ranges,
                            std::int64_t row, std::int64_t first, std::int64_t count, Element* x) {
  if (!s.has_ranges()) {
    const Bf16* from = as<Bf16>(codes) + row * s.columns + first;
    return sweep(0, count, [&](std::int64_t i, auto lanes) { store(x + i, load(from + i, lanes), lanes); });
  }
  for (std::int64_t i = first, of_group = 0; i < first + count; i += of_group) {
    of_group = min(code_group - i % code_group, first + count - i);
    restore_group(s, codes, ranges, row, i, of_group,
                  [&](std::int64_t j, F numbers, std::int64_t lanes) { store(x + j - first, numbers, lanes); });
  }
}

}  // namespace comera::kernels::COMERA_CPU
