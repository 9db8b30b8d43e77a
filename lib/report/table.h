// One table model for everything that is printed: people read `table`, `md` and `html`, scripts read `csv` and `jsonl`.
// Scripts get keys and plain numbers (bytes, parameters, fractions); people get titles and units.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace comera::report {

// The way in which a number is shown to people. Scripts always get the number itself.
enum class Unit : std::uint8_t {
  plain,  // 3.21
  count,  // 66,957,315
  bytes,  // 255 MiB
  ratio,  // 43.1x
  share,  // 0.25 -> 25.0 %
  ms,     // 42.3
  error,  // 0.5730: errors and cosines, a column with one number of digits
  sizes   // of lists: 768x3072
};

// Nothing, a whole number, a number, a text, a list of whole numbers (modes, ranks).
using Cell = std::variant<std::monostate, std::int64_t, double, std::string, std::vector<std::int64_t>>;

struct Column {
  std::string key;    // what scripts call it
  std::string title;  // for people; a plain table may break it into lines
  Unit unit = Unit::plain;
  bool right = false;  // it has numbers; set by render()
};

struct Table {
  std::vector<Column> columns = {};
  std::vector<std::vector<Cell>> rows = {};
  std::vector<std::vector<Cell>> totals = {};  // below a rule, for people alone
  std::vector<std::string> dispensable = {};   // keys of columns that a narrow terminal leaves out, the first one first

  int column(std::string_view key) const;  // -1 where there is none
};

enum class Format : std::uint8_t { table, md, csv, jsonl, html };
Format parse_format(std::string_view word);  // one of the five words, else a bug (options check their choices)

std::string render(const Table& table, Format format);  // ends with a newline
std::string show(const Cell& cell, Unit unit);          // as people read it
std::string show(double value, Unit unit);

// Columns in which some row has a value; a table without rows keeps all.
Table without_empty_columns(const Table& table);

// By one column: numbers largest first, texts from a to z; "-key" the other way round. InputError that lists the keys.
void sort_rows(Table& table, std::string_view key);

std::string escape_html(std::string_view text);

}  // namespace comera::report
