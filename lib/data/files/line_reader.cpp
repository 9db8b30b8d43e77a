#include "lib/data/files/line_reader.h"

#include <algorithm>
#include <cstring>

#include "lib/core/error.h"
#include "lib/data/tokenizer/unicode.h"

namespace comera::data {
namespace {

constexpr std::size_t block_bytes = std::size_t{1} << 18;

}  // namespace

LineReader::LineReader(const std::string& path, std::uint64_t offset, std::int64_t line)
    : LineReader(ByteStream::open(path), path) {
  offset_ = offset;
  line_ = line;
  if (offset > 0) stream_->skip(offset);
}

LineReader::LineReader(std::unique_ptr<ByteStream> stream, std::string name)
    : path_(std::move(name)), stream_(std::move(stream)) {}

bool LineReader::fill() {
  if (begin_ > 0) {
    buffer_.erase(0, begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  buffer_.resize(std::max(end_ + room_, end_ + end_ / 2));
  room_ = std::min(2 * room_, block_bytes);
  const std::size_t got = stream_->read(buffer_.data() + end_, buffer_.size() - end_);
  end_ += got;
  at_end_ = got == 0;
  return got > 0;
}

bool LineReader::ready() {
  while (!at_end_ && end_ - begin_ <= longest && std::memchr(buffer_.data() + begin_, '\n', end_ - begin_) == nullptr) {
    if (stream_->would_wait()) return false;
    fill();
  }
  return true;
}

// Searches for the line end in the next `most` bytes plus the two of the line end itself. `stop` is the position of
// the line end or of the end of the file. Returns false if the line is longer.
bool LineReader::find_end(std::size_t most, std::size_t& stop) {
  for (std::size_t searched = 0;;) {
    const std::size_t there = std::min(end_ - begin_, most + 2);
    const char* const from = buffer_.data() + begin_;
    const auto* found =
        static_cast<const char*>(there > searched ? std::memchr(from + searched, '\n', there - searched) : nullptr);
    stop = found ? static_cast<std::size_t>(found - from) : end_ - begin_;
    newline_ = found != nullptr;
    if (found) break;
    if (there == most + 2) return false;
    searched = there;
    if (at_end_ || !fill()) break;
  }
  carriage_ = stop > 0 && buffer_[begin_ + stop - 1] == '\r';
  return stop - carriage_ <= most;
}

std::string_view LineReader::take(std::size_t size, std::size_t behind) {
  const std::string_view text = std::string_view(buffer_).substr(begin_, size);
  const bool first = offset_ == 0;
  if (ended_) ++line_, in_line_ = 0;
  require_utf8(text, path_, line_, in_line_);
  offset_ += behind;
  begin_ += behind;
  in_line_ += behind;
  return first && text.starts_with("\xEF\xBB\xBF") ? text.substr(3) : text;
}

bool LineReader::next(std::string_view& text, std::size_t most, const CutRule& cut) {
  std::size_t stop = 0;
  if (find_end(most, stop)) {
    if (stop == 0 && !newline_ && ended_) return false;
    text = take(stop - carriage_, stop + newline_);
    ended_ = true;
    return true;
  }
  if (!cut) fail_input("[data] {}: line {}: is longer than {} MiB; break it into lines", path_, line_ + 1, most >> 20);
  const std::string_view window = whole_characters(std::string_view(buffer_).substr(begin_, most + 1), most);
  require_utf8(window, path_, line_ + ended_, ended_ ? 0 : in_line_);
  const Cut place = cut(window);
  text = take(place.end, place.next);
  ended_ = false;
  return true;
}

std::string_view LineReader::line_end() const {
  if (!ended_) return "";
  return newline_ ? carriage_ ? "\r\n" : "\n" : carriage_ ? "\r" : "";
}

void require_utf8(std::string_view text, const std::string& name, std::int64_t line, std::uint64_t before) {
  const std::size_t bad = find_invalid_utf8(text);
  if (bad == std::string_view::npos) return;
  fail_input("[data] {}: line {}: byte {} (0x{:02X}) is not UTF-8; convert the file, for instance with iconv -t UTF-8",
             name, line, before + bad + 1, static_cast<unsigned>(static_cast<unsigned char>(text[bad])));
}

}  // namespace comera::data
