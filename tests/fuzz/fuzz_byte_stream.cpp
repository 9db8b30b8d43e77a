// Reads any bytes as a plain, gzip or zstd file. Either an error with a message, or the same bytes for every size of
// the read requests.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "lib/core/error.h"
#include "lib/data/files/byte_stream.h"
#include "tests/fuzz/scratch_file.h"

using namespace comera;

namespace {

constexpr std::size_t most = 16 << 20;  // limit, because a decompression bomb would take too long

std::string unpacked(const std::string& path, std::size_t step) {
  const auto stream = data::ByteStream::open(path);
  std::string all, part(step, '\0');
  for (std::size_t got = 0; all.size() < most && (got = stream->read(part.data(), part.size())) != 0;) {
    if (got > step) std::abort();
    all.append(part, 0, got);
  }
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ScratchFile file;
  file.fill(data, size);
  try {
    const std::string large = unpacked(file.path(), 1 << 16);
    const std::string small = unpacked(file.path(), 777);
    const std::size_t both = std::min(large.size(), small.size());
    if (large.compare(0, both, small, 0, both) != 0 || (large.size() != small.size() && both < most)) std::abort();
  } catch (const InputError&) {
  }
  return 0;
}
