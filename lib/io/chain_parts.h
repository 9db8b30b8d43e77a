// The list of tensors that a chain has in a file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/io/tt_format.h"

namespace comera::io {

// One tensor of a chain in a file.
struct ChainPart {
  // codes: numbers on a grid, U8
  enum class Role : std::uint8_t { core, diagonal, indices, rows, codes } role = Role::core;
  std::string name;
  FileShape shape;
};
// Returns exactly the tensors of the chain. Readers and writers both use this list.
std::vector<ChainPart> parts_of(const ChainSpec& chain);

}  // namespace comera::io
