// Codes of activations, made by the op that makes them.
#pragma once

#include "kernels/group_codes.h"
#include "tests/kernels/harness/call.h"

namespace comera::kernels::cuda {

inline CodedRows coded(Call& call, const GroupCodes& shape, const void* x) {
  const auto bytes = static_cast<std::size_t>(shape.rows * shape.row_bytes());
  const auto ranges = static_cast<std::size_t>(4 * shape.rows * shape.groups());
  auto* codes = const_cast<std::uint8_t*>(call.bytes(std::vector<std::uint8_t>(bytes)));
  auto* kept = const_cast<std::uint8_t*>(call.bytes(std::vector<std::uint8_t>(ranges)));
  GroupQuantise quantise{.shape = shape, .x = x, .codes = codes, .ranges = reinterpret_cast<std::uint16_t*>(kept)};
  call.run(backend().group_quantise, quantise);
  return {shape, codes, reinterpret_cast<const std::uint16_t*>(kept)};
}

// The numbers of the codes.
inline void* restored(Call& call, const CodedRows& x) {
  void* numbers = call.activations(Floats(static_cast<std::size_t>(x.shape.rows * x.shape.columns), NAN));
  call.run(backend().group_restore, GroupRestore{.shape = x.shape, .codes = x.codes, .ranges = x.ranges, .x = numbers});
  return numbers;
}

}  // namespace comera::kernels::cuda
