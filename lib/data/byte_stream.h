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
  // Input errors name the file: missing, unreadable, a folder.
  static std::unique_ptr<ByteStream> open(const std::string& path);
  virtual ~ByteStream() = default;

  // Up to `size` bytes; 0 only at the end. Damaged or truncated gzip or zstd is an input error.
  virtual std::size_t read(char* out, std::size_t size) = 0;
  // Drops bytes; plain files seek. Fewer than `bytes` left is an input error: the file has changed.
  virtual void skip(std::uint64_t bytes) = 0;
};

// Lines without their end ("\n" or "\r\n"); a byte order mark at the start is dropped, and so is a carriage return at the end of a line.
class LineReader {
 public:
  static constexpr std::size_t longest = std::size_t{256} << 20;  // a longer line is an input error: it would have to fit in memory

  // Starts at `offset` of the unpacked file, which is the start of its line number `line` + 1.
  explicit LineReader(const std::string& path, std::uint64_t offset = 0, std::int64_t line = 0);

  // False at the end. The view holds until the next call. Input errors name file, line and byte where it is not UTF-8.
  bool next(std::string_view& text);

  const std::string& path() const { return path_; }
  std::int64_t line() const { return line_; }       // number of the line handed out last, from 1
  std::uint64_t offset() const { return offset_; }  // of the unpacked byte behind it

 private:
  bool fill();  // false at the end of the file

  std::string path_;
  std::unique_ptr<ByteStream> stream_;
  std::string buffer_;
  std::size_t begin_ = 0, end_ = 0;  // of what is in the buffer and not handed out
  std::uint64_t offset_ = 0;
  std::int64_t line_ = 0;
};

// All of a file, unpacked.
std::string read_all(const std::string& path);

// Fails with file, line and byte unless `text`, line `line` of `name`, is UTF-8.
void require_utf8(std::string_view text, const std::string& name, std::int64_t line);

}  // namespace comera::data
