// Reads the lines of a file and checks that they are UTF-8. Memory is bounded for any file: a line is returned whole
// up to a limit, or in parts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "lib/data/files/byte_stream.h"
#include "lib/data/files/cut.h"

namespace comera::data {

// Lines come without their end ("\n" or "\r\n"). A byte order mark at the start and a carriage return at the end of a
// line are dropped.
class LineReader {
 public:
  static constexpr std::size_t longest = std::size_t{64}
                                         << 20;  // of a line that is read whole; a longer one is an input error

  // Starts at `offset` of the unpacked file, at or inside line number `line` + 1.
  explicit LineReader(const std::string& path, std::uint64_t offset = 0, std::int64_t line = 0);
  LineReader(std::unique_ptr<ByteStream> stream, std::string name);

  // Returns a whole line; false at the end. The view is valid until the next call. Input errors for invalid UTF-8 name
  // file, line and byte.
  bool next(std::string_view& text) { return next(text, longest, nullptr); }
  // A line of more than `most` bytes comes in parts of up to `most` bytes, cut by `cut`.
  bool next(std::string_view& text, std::size_t most, const CutRule& cut);
  // True if next() would not block: a whole line is buffered, or the end is reached.
  bool ready();
  bool seeks() const { return stream_->seeks(); }  // reading can begin anywhere without reading what is before

  const std::string& path() const { return path_; }
  std::int64_t line() const { return line_; }  // number of the line that was returned last, whole or in part, from 1
  bool line_ended() const { return ended_; }   // the last text returned reached the end of its line
  // Line end of that line in the file: "\n", "\r\n", "\r", or "" at the end of the file.
  std::string_view line_end() const;
  // The position at which reading can restart: the unpacked byte after the last text returned, and the number of lines
  // that end before it.
  std::uint64_t offset() const { return offset_; }
  std::int64_t lines_before() const { return ended_ ? line_ : line_ - 1; }

 private:
  bool fill();  // returns false at the end of the file
  bool find_end(std::size_t most, std::size_t& stop);
  std::string_view take(std::size_t size, std::size_t behind);

  std::string path_;
  std::unique_ptr<ByteStream> stream_;
  std::string buffer_;
  std::size_t room_ = std::size_t{1} << 15;  // of the next read; it grows, since a reader may want a few lines only
  std::size_t begin_ = 0, end_ = 0;          // range of the bytes in the buffer that were not returned yet
  std::uint64_t offset_ = 0;
  std::int64_t line_ = 0;
  std::uint64_t in_line_ = 0;  // bytes of the line before the next text
  bool ended_ = true, newline_ = false, carriage_ = false, at_end_ = false;
};

// Fails with file, line and byte unless `text` is UTF-8. `text` is a part of line `line` of `name`, from byte `before`
// on.
void require_utf8(std::string_view text, const std::string& name, std::int64_t line, std::uint64_t before = 0);

}  // namespace comera::data
