// Lines of a file, checked to be UTF-8. Memory is bounded, whatever the file holds: a line is handed out whole up to a
// bound, or in parts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "lib/data/byte_stream.h"
#include "lib/data/cut.h"

namespace comera::data {

// Lines without their end ("\n" or "\r\n"); a byte order mark at the start is dropped, and so is a carriage return at
// the end of a line.
class LineReader {
 public:
  static constexpr std::size_t longest = std::size_t{64}
                                         << 20;  // of a line that is wanted whole; a longer one is an input error

  // Starts at `offset` of the unpacked file: at or inside its line number `line` + 1.
  explicit LineReader(const std::string& path, std::uint64_t offset = 0, std::int64_t line = 0);
  LineReader(std::unique_ptr<ByteStream> stream, std::string name);

  // A whole line; false at the end. The view holds until the next call. Input errors name file, line and byte where it
  // is not UTF-8.
  bool next(std::string_view& text) { return next(text, longest, nullptr); }
  // A line of more than `most` bytes comes in parts of up to `most`, cut by `cut`.
  bool next(std::string_view& text, std::size_t most, const CutRule& cut);
  // True where next() would not block: a whole line is there, or the end.
  bool ready();

  const std::string& path() const { return path_; }
  std::int64_t line() const { return line_; }  // number of the line that was handed out last, or a part of it, from 1
  bool line_ended() const { return ended_; }   // what was handed out last is the end of its line
  std::string_view line_end() const;  // how that line ends in the file: "\n", "\r\n", "\r", "" at the end of the file
  // The place where reading can start again: the unpacked byte behind the last text that was given, and the lines that
  // end before it.
  std::uint64_t offset() const { return offset_; }
  std::int64_t lines_before() const { return ended_ ? line_ : line_ - 1; }

 private:
  bool fill();  // false at the end of the file
  bool find_end(std::size_t most, std::size_t& stop);
  std::string_view take(std::size_t size, std::size_t behind);

  std::string path_;
  std::unique_ptr<ByteStream> stream_;
  std::string buffer_;
  std::size_t begin_ = 0, end_ = 0;  // of what is in the buffer and not handed out
  std::uint64_t offset_ = 0;
  std::int64_t line_ = 0;
  std::uint64_t in_line_ = 0;  // bytes of the line before what is handed out next
  bool ended_ = true, newline_ = false, carriage_ = false, at_end_ = false;
};

// Fails with file, line and byte unless `text`, line `line` of `name` from its byte `before` on, is UTF-8.
void require_utf8(std::string_view text, const std::string& name, std::int64_t line, std::uint64_t before = 0);

}  // namespace comera::data
