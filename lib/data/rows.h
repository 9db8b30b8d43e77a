// Rows of tables (TSV, CSV, JSONL), one file's after another, checked as they are read.
//
// TSV: the first line names the columns; fields are separated by tabs, nothing is quoted or escaped. CSV: RFC 4180, the
// first row names the columns; a field in quotes may hold commas, doubled quotes and ends of lines. JSONL: one object a
// line; strings are taken as they are, numbers and booleans as they are written. Lines that are empty at the end of a
// file are no rows.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/data/format.h"
#include "lib/data/line_reader.h"

namespace comera::data {

struct Columns {
  std::vector<std::string> text;  // one or two
  std::string label;              // empty: no labels
};

struct Row {
  std::array<std::string_view, 2> text;  // the second is empty where one column is named
  std::string_view label;
  std::int64_t line = 0;  // where it begins
};

// Errors name the file and the line: a column that is missing or there twice (with those that exist), a row with too
// few or too many fields, a quote out of place, a line that is not a JSON object or nests deeper than `deepest_json`, a
// key that is missing.
class RowReader {
 public:
  static constexpr std::size_t longest = LineReader::longest;  // of a row
  static constexpr int deepest_json = 64;
  static constexpr std::size_t most_columns = 1 << 16;

  // Reads the first line where it names the columns.
  static std::unique_ptr<RowReader> open(LineReader& lines, Format format, const Columns& columns);
  virtual ~RowReader() = default;
  // False at the end. The views hold until the next call.
  bool next(LineReader& lines, Row& row);

 protected:
  explicit RowReader(const Columns& columns) : columns_(columns) {}
  // The row that begins with this line.
  virtual void take(std::string_view line, LineReader& lines, Row& row) = 0;
  virtual bool takes_empty() const { return false; }

  Columns columns_;

 private:
  std::int64_t first_empty_ = 0;
};

// "'a', 'b' and 3 more", for messages.
std::string quoted_list(const std::vector<std::string>& names);

}  // namespace comera::data
