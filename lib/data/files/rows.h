// Reads and checks the rows of table files (TSV, CSV, JSONL).
//
// TSV: the first line names the columns; fields are separated by tabs, without quotes or escapes. CSV: RFC 4180, the
// first row names the columns; a field in quotes may contain commas, doubled quotes and line ends. JSONL: one object
// per line; strings are used as they are, numbers and booleans as written. Empty lines at the end of a file are no
// rows.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/data/files/format.h"
#include "lib/data/files/line_reader.h"

namespace comera::data {

struct Columns {
  std::vector<std::string> text;  // one or two
  std::string label;              // empty: no labels
  bool conversations = false;     // JSONL: the first column is a list of messages, and the text is that list as JSON
};

struct Row {
  std::array<std::string_view, 2> text;  // the second is empty if only one column is named
  std::string_view label;
  std::int64_t line = 0;  // line at which the row begins
};

// Errors name the file and the line: a missing or duplicate column (the message lists the existing ones), too few or
// too many fields in a row, a misplaced quote, a line that is no JSON object or nests deeper than `deepest_json`, a
// missing key.
class RowReader {
 public:
  static constexpr std::size_t longest = LineReader::longest;  // of a row
  static constexpr int deepest_json = 64;

  // Reads the first line if it names the columns.
  static std::unique_ptr<RowReader> open(LineReader& lines, Format format, const Columns& columns);
  virtual ~RowReader() = default;
  // Returns false at the end. The views are valid until the next call.
  bool next(LineReader& lines, Row& row);

 protected:
  explicit RowReader(const Columns& columns) : columns_(columns) {}
  // Reads the row that begins with this line.
  virtual void take(std::string_view line, LineReader& lines, Row& row) = 0;
  virtual bool takes_empty() const { return false; }

  Columns columns_;

 private:
  std::int64_t first_empty_ = 0;
};

// Returns "'a', 'b' and 3 more" for messages.
std::string quoted_list(const std::vector<std::string>& names);

}  // namespace comera::data
