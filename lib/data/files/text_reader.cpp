#include "lib/data/files/text_reader.h"

#include "lib/core/error.h"

namespace comera::data {

TextReader::TextReader(const std::string& path, TextRequest request, std::uint64_t offset, std::int64_t line)
    : request_(std::move(request)), format_(request_.format ? *request_.format : format_of(path)), lines_(path) {
  open_rows();
  if (offset > 0) lines_ = LineReader(path, offset, line);
}

TextReader::TextReader(std::string_view bytes, std::string name, Format format, TextRequest request)
    : request_(std::move(request)), format_(format), lines_(ByteStream::of(bytes), std::move(name)) {
  open_rows();
}

void TextReader::open_rows() {
  if (request_.conversations && request_.text.empty()) request_.text = {"messages"};
  if (!is_table()) {
    if (request_.conversations)
      fail_input("[data] {}: conversations are read from .jsonl files (each also .gz or .zst)", lines_.path());
    if (!request_.label.empty())
      fail_input("[data] {}: labelled rows are read from .csv, .tsv or .jsonl files (each also .gz or .zst)",
                 lines_.path());
    if (request_.named)
      fail_input(
          "[data] {}: --text names columns, and a text file has none; leave --text out, or give a .csv, .tsv or .jsonl "
          "file",
          lines_.path());
    return;
  }
  if (request_.text.empty()) request_.text = {"text"};
  rows_ = RowReader::open(lines_, format_, {request_.text, request_.label, request_.conversations});
}

bool TextReader::next(Row& row) {
  if (rows_) return rows_->next(lines_, row);
  row = {};
  const bool any =
      request_.longest > 0 ? lines_.next(row.text[0], request_.longest, request_.cut) : lines_.next(row.text[0]);
  row.line = lines_.line();
  return any;
}

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\f\r") == std::string_view::npos; }

}  // namespace comera::data
