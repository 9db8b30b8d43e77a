// A weight on a grid as a parameter: the blocks of its lines, as the file stores them.
#pragma once

#include "kernels/grids.h"
#include "lib/layers/training/builder.h"

namespace comera::layers {

// Adds the parameter `<name>.base`, u8 [lines, bytes of a line].
inline Parameter* add_lines(Builder& builder, const std::string& name, kernels::GridLines shape) {
  Parameter base;
  base.name = name + ".base";
  base.shape = {shape.lines, shape.line_bytes()};
  base.type = DType::u8;
  return builder.parameters.add(std::move(base));
}

// The lines [first, first + count), for a call that follows at once.
inline kernels::GridLines lines_of(const Walk& walk, Parameter& base, kernels::GridLines shape, std::int64_t first,
                                   std::int64_t count) {
  shape.bytes = static_cast<const std::uint8_t*>(brought(walk, base).data) + first * shape.line_bytes();
  shape.lines = count;
  return shape;
}

// A gradient of a weight on a grid was wanted.
[[noreturn]] inline void refuse_gradient(const std::string& name) {
  throw std::logic_error("[layers] " + name + ": numbers on a grid have no gradient");
}

}  // namespace comera::layers
