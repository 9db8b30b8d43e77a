#include "lib/data/images/idx.h"

#include <algorithm>
#include <array>
#include <span>

#include "lib/core/error.h"
#include "lib/core/join.h"
#include "lib/core/terminal/stop.h"

namespace comera::data {
namespace {

constexpr std::int64_t most_bytes = std::int64_t{1} << 36;
constexpr std::size_t block_bytes = std::size_t{1} << 20;

// Reads up to out.size() bytes, fewer at the end alone.
std::size_t fill(ByteStream& stream, std::span<std::uint8_t> out) {
  std::size_t filled = 0;
  while (filled < out.size()) {
    const std::size_t got = stream.read(reinterpret_cast<char*>(out.data()) + filled, out.size() - filled);
    if (got == 0) break;
    filled += got;
  }
  return filled;
}

std::int64_t big_endian(const std::uint8_t* bytes) {
  return std::int64_t{bytes[0]} << 24 | std::int64_t{bytes[1]} << 16 | std::int64_t{bytes[2]} << 8 | bytes[3];
}

// `start`: the first four bytes.
bool begins_idx(std::span<const std::uint8_t> start) {
  return start.size() == 4 && start[0] == 0 && start[1] == 0 && start[2] >= 8 && start[2] <= 14 && start[3] >= 1;
}

std::string text_of(const std::vector<std::int64_t>& sizes) {
  std::vector<std::string> words;
  for (const std::int64_t size : sizes) words.push_back(std::to_string(size));
  return join(words, " x ");
}

std::vector<std::int64_t> read_sizes(ByteStream& stream, const std::string& name) {
  std::array<std::uint8_t, 4> start{};
  if (fill(stream, start) < start.size() || !begins_idx(start))
    fail_input("[data] {}: is no IDX file; such a file begins with the bytes 0, 0, 8 and its number of sizes", name);
  if (start[2] != 8)
    fail_input("[data] {}: has elements of type {}; only unsigned bytes (type 8) are read", name, start[2]);
  if (start[3] > 4) fail_input("[data] {}: has {} sizes; images have 3 or 4, labels 1", name, start[3]);
  std::vector<std::int64_t> sizes;
  std::int64_t product = 1;
  for (int i = 0; i < start[3]; ++i) {
    std::array<std::uint8_t, 4> bytes{};
    if (fill(stream, bytes) < bytes.size()) fail_input("[data] {}: ends within its header; it is truncated", name);
    sizes.push_back(big_endian(bytes.data()));
    if (sizes.back() == 0) fail_input("[data] {}: its size {} is 0; it holds nothing", name, i + 1);
    if (sizes.back() > most_bytes / product)
      fail_input("[data] {}: claims {} bytes or more; at most {} are read", name, text_of(sizes), most_bytes);
    product *= sizes.back();
  }
  return sizes;
}

}  // namespace

Idx read_idx(ByteStream& stream, const std::string& name) {
  Idx idx{read_sizes(stream, name), {}};
  std::int64_t wanted = 1;
  for (const std::int64_t size : idx.sizes) wanted *= size;
  for (std::size_t filled = 0; static_cast<std::int64_t>(filled) < wanted;) {
    check_stop();
    const std::size_t block = std::min(block_bytes, static_cast<std::size_t>(wanted) - filled);
    idx.bytes.resize(filled + block);
    const std::size_t got = fill(stream, std::span(idx.bytes).subspan(filled));
    filled += got;
    if (got < block)
      fail_input("[data] {}: its header claims {} = {} bytes, but {} follow; the file is truncated or damaged", name,
                 text_of(idx.sizes), wanted, filled);
  }
  std::array<std::uint8_t, 1> more{};
  if (fill(stream, more) > 0)
    fail_input("[data] {}: its header claims {} = {} bytes, but more follow; the file is damaged", name,
               text_of(idx.sizes), wanted);
  return idx;
}

bool is_idx(const std::string& path) {
  std::array<std::uint8_t, 4> start{};
  const auto stream = ByteStream::open(path);
  return fill(*stream, start) == start.size() && begins_idx(start);
}

}  // namespace comera::data
