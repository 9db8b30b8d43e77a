// One table model for all output. `table`, `md` and `html` are for people, with titles and units. `csv` and `jsonl` are
// for scripts, with keys and plain numbers (bytes, parameters, fractions).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace comera::report {

// The display format of a number for people. Scripts always get the plain number.
enum class Unit : std::uint8_t {
  plain,  // 3.21
  count,  // 66,957,315
  bytes,  // 255 MiB
  ratio,  // 43.1x
  share,  // 0.25 -> 25.0 %
  ms,     // 42.3
  error,  // 0.5730: errors and cosines, with a fixed number of digits
  sizes   // of lists: 768x3072
};

// Nothing, an integer, a number, a text, or a list of integers (modes, ranks).
using Cell = std::variant<std::monostate, std::int64_t, double, std::string, std::vector<std::int64_t>>;

struct Column {
  std::string key;    // name for scripts
  std::string title;  // for people; a plain table may break it into lines
  Unit unit = Unit::plain;
  bool right = false;     // contains numbers; set by render()
  std::string note = {};  // a sentence for people, below a table on stdout that shows the column
};

struct Table {
  std::vector<Column> columns = {};
  std::vector<std::vector<Cell>> rows = {};
  std::vector<std::vector<Cell>> totals = {};  // below a rule, only for people
  std::vector<std::string> dispensable = {};   // keys of columns that a narrow terminal omits, in order

  int column(std::string_view key) const;  // -1 if there is none
};

enum class Format : std::uint8_t { table, md, csv, jsonl, html };
Format parse_format(std::string_view word);  // one of the five words; any other is a bug (options check their choices)

std::string render(const Table& table, Format format);  // ends with a newline
std::string show(const Cell& cell, Unit unit);          // display format for people
std::string show(double value, Unit unit);

// Removes columns without a value in any row. A table without rows keeps all columns.
Table without_empty_columns(const Table& table);

// Sorts by one column: numbers largest first, texts from a to z; "-key" reverses the order. Throws InputError with the
// list of keys.
void sort_rows(Table& table, std::string_view key);

std::string escape_html(std::string_view text);

}  // namespace comera::report
