// The one way to text: the lines of a text file, or the rows of a table, of a plain, .gz or .zst file.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/data/rows.h"

namespace comera::data {

struct TextRequest {
  std::optional<Format> format;   // none: by the file's name
  std::vector<std::string> text;  // columns of a table; none: "text"
  bool named = false;  // these columns were asked for, and no other file has them: a text file is an input error
  std::string label;   // column of a table; empty: no labels
  std::size_t longest =
      0;  // text: a longer line comes in parts of up to this many bytes, cut by `cut`; 0: it is an input error
  CutRule cut = cut_at_blank;
};

class TextReader {
 public:
  // Starts at `offset` of the unpacked file, where line number `line` + 1 is. Columns are looked for at once (in JSONL
  // by the first row).
  TextReader(const std::string& path, TextRequest request, std::uint64_t offset = 0, std::int64_t line = 0);
  // Reads bytes in memory, which must stay there.
  TextReader(std::string_view bytes, std::string name, Format format, TextRequest request);

  // A row of the table; of a text file a line, or a part of one, as the first text. False at the end. The views hold
  // until the next call.
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

// TextRequest::named of columns that were asked for: a list in which nothing is a table has none.
bool names_in_vain(const std::vector<std::string>& files, const std::optional<Format>& format,
                   const std::vector<std::string>& text);

bool is_blank(std::string_view text);  // nothing but blanks, tabs, form feeds and carriage returns

}  // namespace comera::data
