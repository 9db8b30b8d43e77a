// A fixed function of a name, the key of random numbers that must not depend on what else a model has.
#pragma once

#include <cstdint>
#include <string_view>

namespace comera::layers {

// FNV-1a (Fowler, Noll and Vo).
constexpr std::uint64_t name_hash(std::string_view name) {
  std::uint64_t hash = 14695981039346656037ull;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return hash;
}

}  // namespace comera::layers
