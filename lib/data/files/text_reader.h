// Reads the lines of a text file or the rows of a table, from a plain, .gz or .zst file.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/data/files/rows.h"

namespace comera::data {

struct TextRequest {
  std::optional<Format> format;   // none: by the file's name
  std::vector<std::string> text;  // columns of a table; none: "text"
  bool named = false;             // the user named these columns: a text file is an input error
  std::string label;              // column of a table; empty: no labels
  std::size_t longest = 0;  // text: a longer line comes in parts of at most this size, cut by `cut`; 0: whole lines
  CutRule cut = cut_at_blank;
  bool conversations = false;  // see Columns; the column is "messages" if none is named
};

class TextReader {
 public:
  // Starts at `offset` of the unpacked file, at line number `line` + 1. Columns are checked at once (in JSONL with the
  // first row).
  TextReader(const std::string& path, TextRequest request, std::uint64_t offset = 0, std::int64_t line = 0);
  // Reads bytes in memory, which must outlive the reader.
  TextReader(std::string_view bytes, std::string name, Format format, TextRequest request);

  // Reads a row of the table. For a text file, the first text is a line or a part of one. Returns false at the end.
  // The views are valid until the next call.
  bool next(Row& row);

  Format format() const { return format_; }
  bool is_table() const { return format_ != Format::text; }
  const LineReader& lines() const { return lines_; }

 private:
  void open_rows();

  TextRequest request_;
  Format format_;
  LineReader lines_;
  std::unique_ptr<RowReader> rows_;  // null: a text file
};

bool is_blank(std::string_view text);  // contains only blanks, tabs, form feeds and carriage returns

}  // namespace comera::data
