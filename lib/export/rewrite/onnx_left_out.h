// A weight that stays dense in a graph, and the reason.
#pragma once

#include <cstdint>
#include <string>

namespace comera::exporting {

// A constant of two or more dimensions that stays as it is and is not part of a chain.
struct OnnxLeftOut {
  std::string name;  // with its shape
  std::uint64_t elements = 0;
  std::string why;  // a sentence in which "it" is the constant
};

}  // namespace comera::exporting
