#include "lib/data/clicks/click_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "kernels/philox.h"
#include "lib/core/error.h"
#include "lib/core/terminal/log.h"
#include "lib/core/units.h"
#include "lib/data/files/text_reader.h"

namespace comera::data {
namespace {

constexpr std::size_t shown_bytes = 40;  // of a field in a message

std::string shown(std::string_view text) { return printable(text.substr(0, shown_bytes)); }

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The next word of a line of blanks; "" at the end.
std::string_view next_word(std::string_view& line) {
  const std::size_t begin = std::min(line.find_first_not_of(" \t"), line.size());
  const std::size_t end = std::min(line.find_first_of(" \t", begin), line.size());
  const std::string_view word = line.substr(begin, end - begin);
  line.remove_prefix(end);
  return word;
}

}  // namespace

// FNV-1a (Fowler, Noll and Vo) over the bytes.
std::uint64_t category_key(std::string_view text) {
  std::uint64_t hash = 14695981039346656037ull;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return kernels::mix64(hash);
}

ClickReader::ClickReader(const std::string& path, const Schema& schema, Labels labels, std::uint64_t offset,
                         std::int64_t line)
    : schema_(schema), labels_(labels), lines_(std::make_unique<LineReader>(path)) {
  read_header();
  if (offset > 0) lines_ = std::make_unique<LineReader>(path, offset, line);
}

ClickReader::ClickReader(std::unique_ptr<ByteStream> stream, std::string name, const Schema& schema, Labels labels)
    : schema_(schema), labels_(labels), lines_(std::make_unique<LineReader>(std::move(stream), std::move(name))) {
  read_header();
}

void ClickReader::read_header() {
  if (schema_.format == ClickFormat::libfm) return;
  names_ = schema_.columns;
  if (schema_.header) {
    names_.clear();
    std::string_view line;
    if (!lines_->next(line)) fail_input("[data] {}: is empty; its first line must name the columns", lines_->path());
    split(line);
    for (std::size_t i = 0; i < fields_.count(); ++i) names_.emplace_back(fields_[i]);
  }
  for (const DenseColumn& column : schema_.dense) dense_at_.push_back(column_of(column.column, names_, lines_->path()));
  for (const CategoryColumn& column : schema_.categories)
    categories_at_.push_back(column_of(column.column, names_, lines_->path()));
  const bool there = std::find(names_.begin(), names_.end(), schema_.label) != names_.end();
  if (there || labels_ == Labels::required) label_at_ = column_of(schema_.label, names_, lines_->path());
}

void ClickReader::split(std::string_view line) {
  if (schema_.format == ClickFormat::csv)
    split_csv(line, *lines_, fields_);
  else
    split_tsv(line, *lines_, fields_);
}

bool ClickReader::next(ClickRow& row) {
  for (std::string_view line; lines_->next(line);) {
    // Tabs alone are a row of TSV whose fields are all missing, and an empty line a row of one column.
    if (schema_.format == ClickFormat::libfm ? is_blank(line) : line.empty() && names_.size() != 1) {
      if (first_empty_ == 0) first_empty_ = lines_->line();
      continue;
    }
    if (first_empty_ > 0)
      fail_input("[data] {}: line {}: is empty; only the end of a file may be", lines_->path(), first_empty_);
    row.line = lines_->line();
    row.dense.clear(), row.keys.clear(), row.values.clear(), row.ends.clear();
    if (schema_.format == ClickFormat::libfm) return take_libfm(line, row), true;
    split(line);
    take_columns(row);
    return true;
  }
  return false;
}

void ClickReader::take_columns(ClickRow& row) {
  // Rows without a header that lack one column lack that of the label, as Criteo's test set does.
  const bool may_lack = labels_ == Labels::optional && !schema_.header && label_at_ != SIZE_MAX;
  const bool lacks = may_lack && fields_.count() + 1 == names_.size();
  if (fields_.count() != names_.size() && !lacks)
    fail_input("[data] {}: line {}: has {} column{}, {} are wanted{}{}", lines_->path(), row.line, fields_.count(),
               fields_.count() == 1 ? "" : "s", names_.size(),
               may_lack ? fmt::format(", or {} without the label", names_.size() - 1) : "",
               schema_.format == ClickFormat::csv ? "; put a field that holds a comma in quotes" : "");
  const auto field = [&](std::size_t at) { return fields_[at - (lacks && at > label_at_)]; };
  row.label = lacks || label_at_ == SIZE_MAX ? -1 : label_from(field(label_at_), row.line);
  for (std::size_t i = 0; i < dense_at_.size(); ++i)
    row.dense.push_back(number_from(schema_.dense[i], field(dense_at_[i]), row.line));
  for (std::size_t i = 0; i < categories_at_.size(); ++i)
    take_category(schema_.categories[i], field(categories_at_[i]), row);
}

void ClickReader::take_category(const CategoryColumn& column, std::string_view text, ClickRow& row) const {
  if (column.separator.empty()) {
    add_key(column, text, row);
  } else {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find(column.separator), text.size());
      if (end > 0) add_key(column, text.substr(0, end), row);
      text.remove_prefix(std::min(end + column.separator.size(), text.size()));
    }
  }
  row.ends.push_back(static_cast<std::uint32_t>(row.keys.size()));
}

void ClickReader::add_key(const CategoryColumn& column, std::string_view text, ClickRow& row) const {
  if (column.encoding != Encoding::id) return row.keys.push_back(category_key(text));
  const std::optional<std::int64_t> id = whole_number(text);
  const std::int64_t limit = column.rows > 0 ? column.rows : most_rows;
  if (!id || *id < 0 || *id >= limit)
    fail_input("[data] {}: line {}: column '{}' has '{}'; the number of a row from 0 to {} is wanted", lines_->path(),
               row.line, printable(column.column), shown(text), limit - 1);
  row.keys.push_back(static_cast<std::uint64_t>(*id));
}

// label index:value index:value ...
void ClickReader::take_libfm(std::string_view line, ClickRow& row) {
  row.label = label_from(next_word(line), row.line);
  const CategoryColumn& first = schema_.categories.front();
  for (std::string_view word; !(word = next_word(line)).empty();) {
    const std::size_t colon = word.find(':');
    const auto value = colon == std::string_view::npos ? std::nullopt : parse_real(word.substr(colon + 1));
    if (!whole_number(word.substr(0, colon)) || !value)
      fail_input("[data] {}: line {}: '{}' is no entry of libFM; an index, a colon and a number are wanted, as in 17:1",
                 lines_->path(), row.line, shown(word));
    const std::size_t at = schema_.libfm_bag() ? 0 : row.ends.size();
    if (at >= schema_.categories.size())
      fail_input("[data] {}: line {}: has more than {} entries; a schema with one category makes a bag of any number",
                 lines_->path(), row.line, schema_.categories.size());
    if (schema_.categories[at].rows > 0 && !schema_.categories[at].weighted && *value != 1)
      fail_input("[data] {}: line {}: '{}' has another value than 1, for which column '{}' has no weights",
                 lines_->path(), row.line, shown(word), printable(schema_.categories[at].column));
    add_key(schema_.categories[at], word.substr(0, colon), row);
    row.values.push_back(static_cast<float>(*value));
    if (!schema_.libfm_bag()) row.ends.push_back(static_cast<std::uint32_t>(row.keys.size()));
  }
  if (row.keys.empty()) fail_input("[data] {}: line {}: has no entries", lines_->path(), row.line);
  if (schema_.libfm_bag()) row.ends.push_back(static_cast<std::uint32_t>(row.keys.size()));
  if (row.ends.size() != schema_.categories.size())
    fail_input("[data] {}: line {}: has {} entries, {} are wanted ('{}', ...); a schema with one category makes a bag",
               lines_->path(), row.line, row.ends.size(), schema_.categories.size(), printable(first.column));
}

std::int32_t ClickReader::label_from(std::string_view text, std::int64_t line) const {
  const bool libfm = schema_.format == ClickFormat::libfm;
  if (text == "1" || text == "+1" || text == "1.0") return 1;
  if (text == "0" || text == "0.0" || (libfm && text == "-1")) return 0;
  if (text.empty() && labels_ == Labels::optional) return -1;
  fail_input("[data] {}: line {}: the label is '{}'; {} is wanted", lines_->path(), line, shown(text),
             libfm ? "0 or -1, or 1" : "0 or 1");
}

float ClickReader::number_from(const DenseColumn& column, std::string_view text, std::int64_t line) const {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  if (text.empty()) return NAN;
  const std::optional<double> number = parse_real(text);
  if (!number || !std::isfinite(static_cast<float>(*number)))
    fail_input("[data] {}: line {}: column '{}' has '{}'; a number is wanted, or nothing where it is missing",
               lines_->path(), line, printable(column.column), shown(text));
  return static_cast<float>(*number);
}

}  // namespace comera::data
