#include "lib/data/files/fields.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/core/error.h"
#include "lib/core/options/suggest.h"
#include "lib/core/terminal/log.h"
#include "lib/data/files/rows.h"

namespace comera::data {
namespace {

// Splits one row of a CSV, line by line, until it is complete.
class CsvSplitter {
 public:
  // Returns false if the row continues in the next line.
  bool take(std::string_view line, const LineReader& lines, Fields& fields) {
    for (std::size_t at = 0; at < line.size();)
      at = state_ == State::quoted ? quoted(line, at, fields) : outside(line, at, lines, fields);
    if (state_ == State::quoted) {
      fields.append(lines.line_end());
      return false;
    }
    fields.end_field(lines);
    state_ = State::start;
    return true;
  }

 private:
  enum class State : std::uint8_t { start, plain, quoted, closed };

  std::size_t quoted(std::string_view line, std::size_t at, Fields& fields) {
    const std::size_t end = std::min(line.find('"', at), line.size());
    fields.append(line.substr(at, end - at));
    if (end == line.size()) return end;
    const bool doubled = line.substr(end + 1).starts_with('"');
    if (doubled) fields.append("\"");
    if (!doubled) state_ = State::closed;
    return end + 1 + doubled;
  }

  std::size_t outside(std::string_view line, std::size_t at, const LineReader& lines, Fields& fields) {
    if (line[at] == '"' && state_ == State::start) return state_ = State::quoted, at + 1;
    const std::size_t end = std::min(line.find_first_of(",\"", at), line.size());
    if (end > at && state_ == State::closed) {
      const bool separator = line[at] == ';' || line[at] == '\t' || line[at] == '|';
      fail_input("[data] {}: line {}: byte {} stands behind the quote that ends a field, where a comma must be; {}",
                 lines.path(), lines.line(), at + 1,
                 separator ? "separate the fields by commas" : "double a quote that belongs to the text");
    }
    if (end < line.size() && line[end] == '"')
      fail_input(
          "[data] {}: line {}: byte {} is a quote inside a field that does not begin with one; put the whole field in "
          "quotes and double the quote",
          lines.path(), lines.line(), end + 1);
    fields.append(line.substr(at, end - at));
    state_ = State::plain;
    if (end == line.size()) return end;
    fields.end_field(lines);
    state_ = State::start;
    return end + 1;
  }

  State state_ = State::start;
};

}  // namespace

void Fields::end_field(const LineReader& lines) {
  if (ends_.size() == most_columns)
    fail_input("[data] {}: line {}: has more than {} columns", lines.path(), lines.line(), most_columns);
  ends_.push_back(text_.size());
}

void split_tsv(std::string_view line, const LineReader& lines, Fields& fields) {
  fields.clear();
  for (std::size_t begin = 0;;) {
    const std::size_t end = line.find('\t', begin);
    fields.append(line.substr(begin, end - begin));
    fields.end_field(lines);
    if (end == std::string_view::npos) return;
    begin = end + 1;
  }
}

void split_csv(std::string_view line, LineReader& lines, Fields& fields) {
  constexpr std::size_t longest = RowReader::longest;
  const std::int64_t first = lines.line();
  CsvSplitter splitter;
  fields.clear();
  while (!splitter.take(line, lines, fields)) {
    if (fields.bytes() > longest)
      fail_input("[data] {}: line {}: a row begins here that is longer than {} MiB; is a quote not closed?",
                 lines.path(), first, longest >> 20);
    if (!lines.next(line))
      fail_input("[data] {}: line {}: a row begins here whose last quote is not closed", lines.path(), first);
  }
}

std::string name_another(const std::string& column, const std::vector<std::string>& names, std::string_view option) {
  const std::string near = did_you_mean(column, names);
  return near.empty() && !option.empty() ? fmt::format("; name another with {}", option) : near;
}

std::size_t column_of(const std::string& column, const std::vector<std::string>& names, const std::string& file,
                      std::string_view option) {
  const auto found = std::find(names.begin(), names.end(), column);
  if (found == names.end())
    fail_input("[data] {}: has no column '{}'; the columns are {}{}", file, printable(column), quoted_list(names),
               name_another(column, names, option));
  if (std::find(found + 1, names.end(), column) != names.end())
    fail_input("[data] {}: has two columns '{}'; the columns are {}; give each its own name", file, printable(column),
               quoted_list(names));
  return static_cast<std::size_t>(found - names.begin());
}

}  // namespace comera::data
