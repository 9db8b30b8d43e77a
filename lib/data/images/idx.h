// IDX files, the format of MNIST: 0, 0, a type, the number of sizes, the sizes as big-endian 32-bit numbers, the
// elements. Only unsigned bytes (type 8) are read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/data/files/byte_stream.h"

namespace comera::data {

struct Idx {
  std::vector<std::int64_t> sizes;  // 1 to 4, each at least 1
  std::vector<std::uint8_t> bytes;  // as many as the product of the sizes
};

// Input errors name the file: another format, a size that is 0 or too large, fewer or more elements than the sizes
// claim. Memory grows with what is read, never by a claim.
Idx read_idx(ByteStream& stream, const std::string& name);

// True if the file begins like an IDX file (plain, gzip or zstd).
bool is_idx(const std::string& path);

}  // namespace comera::data
