// The tensors that a chain has in a file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/io/tt_format.h"

namespace comera::io {

// A tensor of a chain in its file.
struct ChainPart {
  enum class Kind : std::uint8_t { core, diagonal, indices, rows } kind = Kind::core;
  std::string name;
  FileShape shape;
};
// Every tensor that the chain has, and no other: the one list that readers and writers go by.
std::vector<ChainPart> parts_of(const ChainSpec& chain);

}  // namespace comera::io
