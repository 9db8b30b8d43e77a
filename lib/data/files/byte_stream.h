// The unpacked bytes of a plain, gzip or zstd file. The first bytes determine the kind, not the name.
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
  // Reads standard input, which is always taken as plain.
  static std::unique_ptr<ByteStream> standard_input();
  // Bytes in memory, which must outlive the stream.
  static std::unique_ptr<ByteStream> of(std::string_view bytes);
  virtual ~ByteStream() = default;

  // Largest ratio of unpacked to packed bytes, checked once more than `free_bytes` were unpacked. Text stays far below
  // it; files made to exhaust memory do not.
  static constexpr std::uint64_t largest_ratio = 200, free_bytes = std::uint64_t{64} << 20;

  // Reads up to `size` bytes, fewer if no more are available yet, and 0 only at the end. Input error if gzip or zstd
  // data is damaged or truncated, or unpacks to more than `largest_ratio` times its size.
  virtual std::size_t read(char* out, std::size_t size) = 0;
  // Skips bytes; plain files seek. If fewer than `bytes` remain, the file has changed and this is an input error.
  virtual void skip(std::uint64_t bytes) = 0;
  // True if skip() takes no longer for more bytes.
  virtual bool seeks() const { return false; }
  // True if read() would block. Files never block.
  virtual bool would_wait() { return false; }
};

}  // namespace comera::data
