#include "lib/data/table.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "lib/core/error.h"
#include "lib/core/log.h"
#include "lib/core/suggest.h"
#include "lib/data/byte_stream.h"

namespace comera::data {
namespace {

constexpr std::size_t longest_text = std::size_t{1} << 31;

std::string quoted_list(const std::vector<std::string>& names) {
  constexpr std::size_t shown = 20, longest_shown = 64;
  std::string list;
  for (std::size_t i = 0; i < std::min(shown, names.size()); ++i) list += (i ? ", '" : "'") + printable(names[i].substr(0, longest_shown)) + "'";
  if (names.size() > shown) list += fmt::format(" and {} more", names.size() - shown);
  return list;
}

std::vector<std::string_view> split_tabs(std::string_view line) {
  std::vector<std::string_view> fields;
  for (std::size_t begin = 0;;) {
    const std::size_t end = line.find('\t', begin);
    fields.push_back(line.substr(begin, end - begin));
    if (end == std::string_view::npos) return fields;
    begin = end + 1;
  }
}

// What a parser hands on: the texts of a row, its label, its line.
using RowSink = std::function<void(std::string_view first, std::string_view second, std::string_view label, std::int64_t number)>;

// One file's lines, in order, cut into rows.
class RowParser {
 public:
  RowParser(std::string name, const Columns& columns, RowSink sink) : name_(std::move(name)), columns_(columns), sink_(std::move(sink)) {
    if (columns_.text.empty() || columns_.text.size() > 2)
      fail_input("[data] {}: {} text columns are named; name one or two with --text", name_, columns_.text.size());
    for (const std::string& text : columns_.text)
      if (text == columns_.label) fail_input("[data] {}: column '{}' cannot be text and label at once; change --text or --label", name_, text);
  }
  virtual ~RowParser() = default;

  void line(std::string_view text, std::int64_t number) {
    if (text.empty() && !takes_empty()) {
      if (first_empty_ == 0) first_empty_ = number;
      return;
    }
    if (first_empty_ > 0) fail_input("[data] {}: line {}: is empty; only the end of a file may be", name_, first_empty_);
    row(text, number);
  }

 protected:
  virtual void row(std::string_view text, std::int64_t number) = 0;
  virtual bool takes_empty() const { return false; }

  std::string name_;
  const Columns& columns_;
  RowSink sink_;

 private:
  std::int64_t first_empty_ = 0;
};

class TsvParser final : public RowParser {
 public:
  using RowParser::RowParser;

 private:
  void row(std::string_view text, std::int64_t number) override {
    const std::vector<std::string_view> fields = split_tabs(text);
    if (names_.empty()) return header(fields);
    if (fields.size() != names_.size())
      fail_input("[data] {}: line {}: has {} column{}, the header names {}; write one tab between columns and none inside them", name_, number,
                 fields.size(), fields.size() == 1 ? "" : "s", names_.size());
    const std::string_view second = columns_.text.size() > 1 ? fields[text_[1]] : std::string_view{};
    sink_(fields[text_[0]], second, columns_.label.empty() ? std::string_view{} : fields[label_], number);
  }
  bool takes_empty() const override { return names_.size() == 1; }

  void header(const std::vector<std::string_view>& fields) {
    names_.assign(fields.begin(), fields.end());
    for (std::size_t i = 0; i < columns_.text.size(); ++i) text_[i] = find(columns_.text[i]);
    if (!columns_.label.empty()) label_ = find(columns_.label);
  }
  std::size_t find(const std::string& column) const {
    const auto found = std::find(names_.begin(), names_.end(), column);
    if (found == names_.end())
      fail_input("[data] {}: has no column '{}'; the columns are {}{}", name_, column, quoted_list(names_), did_you_mean(column, names_));
    return static_cast<std::size_t>(found - names_.begin());
  }

  std::vector<std::string> names_;
  std::size_t text_[2] = {0, 0}, label_ = 0;
};

nlohmann::json parse_object(std::string_view text, const std::string& name, std::int64_t number) {
  auto object = nlohmann::json::parse(text.begin(), text.end(), nullptr, false);
  if (!object.is_object()) fail_input("[data] {}: line {}: is not a JSON object; write one object in braces per line", name, number);
  return object;
}

std::string value_of(const nlohmann::json& object, const std::string& key, const std::string& name, std::int64_t number) {
  const auto found = object.find(key);
  if (found == object.end()) {
    std::vector<std::string> keys;
    for (const auto& item : object.items()) keys.push_back(item.key());
    fail_input("[data] {}: line {}: has no key '{}'; the keys are {}{}", name, number, key, quoted_list(keys), did_you_mean(key, keys));
  }
  if (found->is_string()) return found->get<std::string>();
  if (found->is_number() || found->is_boolean()) return found->dump();
  fail_input("[data] {}: line {}: '{}' is {}, a string is wanted", name, number, key, found->is_null() ? "null" : "a list or an object");
}

class JsonParser final : public RowParser {
 public:
  using RowParser::RowParser;

 private:
  void row(std::string_view text, std::int64_t number) override {
    const nlohmann::json object = parse_object(text, name_, number);
    const std::string first = value_of(object, columns_.text[0], name_, number);
    const std::string second = columns_.text.size() > 1 ? value_of(object, columns_.text[1], name_, number) : std::string();
    sink_(first, second, columns_.label.empty() ? std::string() : value_of(object, columns_.label, name_, number), number);
  }
};

// Rows into a table, their labels checked.
RowSink rows_into(Table& table, const std::string& name, const Columns& columns) {
  return [&table, name, column = columns.label](std::string_view first, std::string_view second, std::string_view label, std::int64_t number) {
    if (std::max(first.size(), second.size()) > longest_text) fail_input("[data] {}: line {}: a text is longer than 2 GiB", name, number);
    if (column.empty()) return table.add(first, second, -1);
    if (label.empty()) fail_input("[data] {}: line {}: the label (column '{}') is empty", name, number, column);
    const std::int32_t index = table.label_of(label);
    if (index < 0)
      fail_input("[data] {}: line {}: unknown label '{}'; the labels are {}{}", name, number, printable(label), quoted_list(table.labels()),
                 did_you_mean(label, table.labels()));
    table.add(first, second, index);
  };
}

std::unique_ptr<RowParser> make_parser(const std::string& name, Format format, const Columns& columns, RowSink sink) {
  if (format == Format::tsv) return std::make_unique<TsvParser>(name, columns, std::move(sink));
  if (format == Format::jsonl) return std::make_unique<JsonParser>(name, columns, std::move(sink));
  fail_input("[data] {}: labelled rows are read from .tsv or .jsonl files (each also .gz or .zst)", name);
}

bool is_integer(const std::string& text, std::int64_t& value) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  return result.ec == std::errc() && result.ptr == end && std::to_string(value) == text;
}

}  // namespace

Format format_of(const std::string& path) {
  std::string_view name = path;
  for (std::string_view packed : {".gz", ".zst"})
    if (name.ends_with(packed)) name.remove_suffix(packed.size());
  if (name.ends_with(".tsv")) return Format::tsv;
  if (name.ends_with(".jsonl") || name.ends_with(".json") || name.ends_with(".ndjson")) return Format::jsonl;
  return Format::text;
}

Table::Table(std::vector<std::string> labels) : labels_(std::move(labels)), collect_(labels_.empty()) {
  for (std::size_t i = 0; i < labels_.size(); ++i) label_index_.emplace(labels_[i], static_cast<std::int32_t>(i));
}

void Table::add(std::string_view first, std::string_view second, std::int32_t label) {
  rows_.push_back({buffer_.size(), {static_cast<std::uint32_t>(first.size()), static_cast<std::uint32_t>(second.size())}, label});
  buffer_ += first;
  buffer_ += second;
}

std::string_view Table::text(std::int64_t row, int which) const {
  const Row& found = rows_[static_cast<std::size_t>(row)];
  return std::string_view(buffer_).substr(found.begin + (which ? found.length[0] : 0), found.length[which]);
}

std::int32_t Table::label_of(std::string_view label) {
  const auto found = label_index_.find(std::string(label));
  if (found != label_index_.end()) return found->second;
  if (!collect_) return -1;
  labels_.emplace_back(label);
  return label_index_[labels_.back()] = static_cast<std::int32_t>(labels_.size()) - 1;
}

void Table::sort_labels() {
  std::vector<std::int64_t> numbers(labels_.size());
  bool integers = true;
  for (std::size_t i = 0; i < labels_.size(); ++i) integers = integers && is_integer(labels_[i], numbers[i]);
  std::vector<std::size_t> order(labels_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return integers ? numbers[a] < numbers[b] : labels_[a] < labels_[b]; });
  std::vector<std::string> sorted;
  std::vector<std::int32_t> rank(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    sorted.push_back(labels_[order[i]]);
    rank[order[i]] = static_cast<std::int32_t>(i);
  }
  for (Row& row : rows_)
    if (row.label >= 0) row.label = rank[static_cast<std::size_t>(row.label)];
  *this = [&] {
    Table table(std::move(sorted));
    table.buffer_ = std::move(buffer_);
    table.rows_ = std::move(rows_);
    return table;
  }();
}

void parse_rows(std::string_view text, const std::string& name, Format format, const Columns& columns, Table& table) {
  const auto parser = make_parser(name, format, columns, rows_into(table, name, columns));
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    require_utf8(line, name, number);
    parser->line(line, number);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

void read_rows(const std::string& path, const Columns& columns, Table& table) {
  const auto parser = make_parser(path, format_of(path), columns, rows_into(table, path, columns));
  LineReader reader(path);
  for (std::string_view line; reader.next(line);) parser->line(line, reader.line());
}

void read_lines(const std::string& path, Table& table) {
  LineReader reader(path);
  for (std::string_view line; reader.next(line);)
    if (line.find_first_not_of(" \t\f\r") != std::string_view::npos) table.add(line, {}, -1);
}

void read_texts(const std::string& path, const std::vector<std::string>& columns, const std::function<void(std::string_view)>& visit) {
  LineReader reader(path);
  const Format format = format_of(path);
  if (format == Format::text) {
    for (std::string_view line; reader.next(line);) visit(line);
    return;
  }
  const Columns chosen{columns.empty() && format == Format::jsonl ? std::vector<std::string>{"text"} : columns, ""};
  const auto parser = make_parser(path, format, chosen, [&](std::string_view first, std::string_view second, std::string_view, std::int64_t) {
    visit(first);
    if (chosen.text.size() > 1) visit(second);
  });
  for (std::string_view line; reader.next(line);) parser->line(line, reader.line());
}

std::string json_text(std::string_view line, const std::string& key, const std::string& name, std::int64_t number) {
  return value_of(parse_object(line, name, number), key, name, number);
}

}  // namespace comera::data
