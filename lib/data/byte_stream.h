// The unpacked bytes of a file: plain, gzip or zstd, told apart by the first bytes, not by the name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace comera::data {

class ByteStream {
 public:
  // Input errors name the file: missing, unreadable, a folder, parquet.
  static std::unique_ptr<ByteStream> open(const std::string& path);
  // Reads standard input, which is never packed.
  static std::unique_ptr<ByteStream> standard_input();
  // Bytes in memory, which have to stay there.
  static std::unique_ptr<ByteStream> of(std::string_view bytes);
  virtual ~ByteStream() = default;

  // A packed file may unpack to this many times its bytes, once more than `free_bytes` came out: text does not come
  // near it, files that are made to fill a memory do.
  static constexpr std::uint64_t largest_ratio = 200, free_bytes = std::uint64_t{64} << 20;

  // Up to `size` bytes, fewer where no more are there yet; 0 only at the end. Damaged or truncated gzip or zstd, and
  // one that unpacks to more than `largest_ratio` times its size, is an input error.
  virtual std::size_t read(char* out, std::size_t size) = 0;
  // Drops bytes; plain files seek. Fewer than `bytes` left is an input error: the file has changed.
  virtual void skip(std::uint64_t bytes) = 0;
  // True where read() would block; files never do.
  virtual bool would_wait() { return false; }
};

}  // namespace comera::data
