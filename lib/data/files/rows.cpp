#include "lib/data/files/rows.h"

#include <algorithm>
#include <optional>

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"
#include "lib/data/files/fields.h"
#include "lib/data/files/json_fault.h"
#include "lib/io/json.h"
#include "lib/io/json_events.h"

namespace comera::data {
namespace {

// A line with carriage returns inside that nothing follows: the file's lines end in them, as on old Macs.
void refuse_carriage_returns(std::string_view line, const LineReader& lines) {
  if (line.find('\r') == line.npos || lines.line_end().ends_with('\n')) return;
  fail_input(
      "[data] {}: its lines end in carriage returns alone, and line feeds are wanted; convert the file, for instance "
      "with tr '\\r' '\\n'",
      lines.path());
}

class NamedColumns : public RowReader {
 protected:
  using RowReader::RowReader;

  // Fills `fields_` with the row that begins with this line.
  virtual void split(std::string_view line, LineReader& lines) = 0;

  void take(std::string_view line, LineReader& lines, Row& row) override {
    row.line = lines.line();
    split(line, lines);
    if (names_.empty()) return header(lines.path());
    if (fields_.count() != names_.size())
      fail_input("[data] {}: line {}: has {} column{}, the header names {}; {}", lines.path(), row.line,
                 fields_.count(), fields_.count() == 1 ? "" : "s", names_.size(), separator_advice());
    row.text[0] = fields_[text_[0]];
    row.text[1] = columns_.text.size() > 1 ? fields_[text_[1]] : std::string_view{};
    row.label = columns_.label.empty() ? std::string_view{} : fields_[label_];
  }
  bool takes_empty() const override { return names_.size() == 1; }
  virtual const char* separator_advice() const = 0;
  virtual const char* other_separator_advice(char separator) const = 0;  // for a file with another one

  Fields fields_;

 private:
  void header(const std::string& file) {
    for (std::size_t i = 0; i < fields_.count(); ++i) names_.emplace_back(fields_[i]);
    if (names_.size() == 1) check_separator(file);
    for (std::size_t i = 0; i < columns_.text.size(); ++i)
      text_[i] = column_of(columns_.text[i], names_, file, "--text");
    if (!columns_.label.empty()) label_ = column_of(columns_.label, names_, file, "--label");
  }

  // A header that is one name of several columns: the file has another separator.
  void check_separator(const std::string& file) const {
    const std::string& header = names_[0];
    if (header == columns_.text[0]) return;
    for (const char other : {';', ',', '\t', '|'}) {
      const std::size_t count = static_cast<std::size_t>(std::ranges::count(header, other)) + 1;
      if (count == 1) continue;
      for (std::size_t begin = 0, end = 0; end != header.npos; begin = end + 1) {
        end = header.find(other, begin);
        if (header.substr(begin, end - begin) != columns_.text[0]) continue;
        fail_input("[data] {}: has no column '{}': its {} columns seem to be separated by {}; {}", file,
                   printable(columns_.text[0]), count, other == '\t' ? "tabs" : fmt::format("'{}'", other),
                   other_separator_advice(other));
      }
    }
  }

  std::vector<std::string> names_;
  std::size_t text_[2] = {0, 0}, label_ = 0;
};

class TsvReader final : public NamedColumns {
 public:
  explicit TsvReader(const Columns& columns) : NamedColumns(columns) {}

 private:
  void split(std::string_view line, LineReader& lines) override { split_tsv(line, lines, fields_); }
  const char* separator_advice() const override { return "write one tab between columns and none inside them"; }
  const char* other_separator_advice(char separator) const override {
    return separator == ',' ? "name it .csv, or read it with --data-format csv" : "write it with tabs";
  }
};

class CsvReader final : public NamedColumns {
 public:
  explicit CsvReader(const Columns& columns) : NamedColumns(columns) {}

 private:
  void split(std::string_view line, LineReader& lines) override { split_csv(line, lines, fields_); }
  const char* separator_advice() const override { return "put a field that holds a comma in quotes"; }
  const char* other_separator_advice(char separator) const override {
    return separator == '\t' ? "name it .tsv, or read it with --data-format tsv" : "write it with commas";
  }
};

// Keeps only the requested values of one object, so memory is bounded for any line.
class JsonPicker final : public io::JsonEvents {
 public:
  JsonPicker(const std::vector<std::string>& wanted, const LineReader& lines)
      : wanted_(wanted), lines_(lines), values_(wanted.size()) {}

  bool null() override {
    if (depth_ == 1 && current_ != nothing) fail_kind("null");
    return depth_ > 0;
  }
  bool boolean(bool value) override { return put(value ? "true" : "false"); }
  bool integer(std::int64_t value) override { return put(std::to_string(value)); }
  bool natural(std::uint64_t value) override { return put(std::to_string(value)); }
  bool real(double, const std::string& written) override { return put(written); }
  bool string(std::string& value) override { return put(std::move(value)); }
  bool begin_object() override { return open(true); }
  bool begin_array() override { return open(false); }
  bool end_object() override { return --depth_, true; }
  bool end_array() override { return --depth_, true; }
  void failure(std::size_t byte, bool number_too_large) override {
    failed_at_ = byte, number_too_large_ = number_too_large;
  }

  bool key(std::string& name) override {
    if (depth_ != 1) return true;
    const auto found = std::find(wanted_.begin(), wanted_.end(), name);
    current_ = found == wanted_.end() ? nothing : static_cast<std::size_t>(found - wanted_.begin());
    if (current_ != nothing && values_[current_])
      fail_input("[data] {}: line {}: has the key '{}' twice", lines_.path(), lines_.line(), printable(name));
    if (keys_.size() < most_keys) keys_.push_back(name.substr(0, longest_key));
    return true;
  }

  // Of a line that was not read to its end.
  [[noreturn]] void fail(std::string_view line) const {
    refuse_carriage_returns(line, lines_);
    const std::size_t first = line.find_first_not_of(" \t");
    if (first == line.npos || line[first] != '{')
      fail_input("[data] {}: line {}: is not a JSON object; write one object in braces per line", lines_.path(),
                 lines_.line());
    if (depth_ == 0)
      fail_input("[data] {}: line {}: byte {} stands behind the object; write one object in braces per line",
                 lines_.path(), lines_.line(), failed_at_);
    fail_input("[data] {}: line {}: is not valid JSON: {}", lines_.path(), lines_.line(),
               json_fault(line, failed_at_, number_too_large_));
  }

  // `option` names the key.
  std::string take(std::size_t i, std::string_view option) {
    if (!values_[i])
      fail_input("[data] {}: line {}: has no key '{}'; the keys are {}{}", lines_.path(), lines_.line(),
                 printable(wanted_[i]), quoted_list(keys_), name_another(wanted_[i], keys_, option));
    return std::move(*values_[i]);
  }

 private:
  static constexpr std::size_t nothing = SIZE_MAX, most_keys = 100, longest_key = 100;

  bool put(std::string value) {
    if (depth_ == 0) return false;
    if (depth_ == 1 && current_ != nothing) values_[current_] = std::move(value);
    return true;
  }
  [[noreturn]] void fail_kind(const char* kind) const {
    fail_input("[data] {}: line {}: '{}' is {}, a string is wanted", lines_.path(), lines_.line(),
               printable(wanted_[current_]), kind);
  }
  bool open(bool object) {
    if (depth_ == 0 && !object) return false;
    if (depth_ == 1 && current_ != nothing) fail_kind("a list or an object");
    if (++depth_ > RowReader::deepest_json)
      fail_input("[data] {}: line {}: the JSON nests deeper than {} levels", lines_.path(), lines_.line(),
                 RowReader::deepest_json);
    return true;
  }

  const std::vector<std::string>& wanted_;
  const LineReader& lines_;
  std::vector<std::optional<std::string>> values_;
  std::vector<std::string> keys_;
  std::size_t current_ = nothing, failed_at_ = 0;
  bool number_too_large_ = false;
  int depth_ = 0;
};

class JsonReader final : public RowReader {
 public:
  explicit JsonReader(const Columns& columns) : RowReader(columns), wanted_(columns.text) {
    if (!columns.label.empty()) wanted_.push_back(columns.label);
    values_.resize(wanted_.size());
  }

 private:
  void take(std::string_view line, LineReader& lines, Row& row) override {
    row.line = lines.line();
    JsonPicker picker(wanted_, lines);
    if (!io::read_json_events(line, picker)) picker.fail(line);
    for (std::size_t i = 0; i < wanted_.size(); ++i)
      values_[i] = picker.take(i, i < columns_.text.size() ? "--text" : "--label");
    row.text[0] = values_[0];
    row.text[1] = columns_.text.size() > 1 ? std::string_view(values_[1]) : std::string_view{};
    row.label = columns_.label.empty() ? std::string_view{} : std::string_view(values_.back());
  }

  std::vector<std::string> wanted_, values_;
};

// A list of messages as JSON.
class ConversationReader final : public RowReader {
 public:
  explicit ConversationReader(const Columns& columns) : RowReader(columns) {}

 private:
  void take(std::string_view line, LineReader& lines, Row& row) override {
    const std::string place = fmt::format("[data] {}: line {}", lines.path(), lines.line());
    const io::Json object = io::parse_json(line, place, deepest_json);
    const std::string& name = columns_.text[0];
    const auto found = object.find(name);
    if (found == object.end() || !found->is_array())
      fail_input("{}: has no list '{}'; a conversation is {{\"{}\": [{{\"role\": \"user\", \"content\": \"Hello\"}}]}}",
                 place, printable(name), printable(name));
    text_ = found->dump();
    row = {};
    row.text[0] = text_;
    row.line = lines.line();
  }

  std::string text_;
};

}  // namespace

std::unique_ptr<RowReader> RowReader::open(LineReader& lines, Format format, const Columns& columns) {
  if (columns.text.empty() || columns.text.size() > 2)
    fail_input("[data] {}: {} text columns are named; name one or two with --text", lines.path(), columns.text.size());
  for (const std::string& text : columns.text)
    if (text == columns.label)
      fail_input("[data] {}: column '{}' cannot be text and label at once; change --text or --label", lines.path(),
                 text);
  if (columns.text.size() > 1 && columns.text[0] == columns.text[1])
    fail_input("[data] {}: column '{}' is named twice by --text; name two columns", lines.path(), columns.text[0]);
  if (columns.conversations) {
    if (format != Format::jsonl || columns.text.size() != 1)
      fail_input("[data] {}: conversations are read from one column of .jsonl files", lines.path());
    return std::make_unique<ConversationReader>(columns);
  }
  if (format == Format::jsonl) return std::make_unique<JsonReader>(columns);
  std::unique_ptr<RowReader> reader;
  if (format == Format::csv)
    reader = std::make_unique<CsvReader>(columns);
  else
    reader = std::make_unique<TsvReader>(columns);
  Row names;
  if (std::string_view line; lines.next(line)) {
    refuse_carriage_returns(line, lines);
    reader->take(line, lines, names);
  }
  return reader;
}

bool RowReader::next(LineReader& lines, Row& row) {
  for (std::string_view line; lines.next(line);) {
    if (line.empty() && !takes_empty()) {
      if (first_empty_ == 0) first_empty_ = lines.line();
      continue;
    }
    if (first_empty_ > 0)
      fail_input("[data] {}: line {}: is empty; only the end of a file may be", lines.path(), first_empty_);
    take(line, lines, row);
    return true;
  }
  return false;
}

std::string quoted_list(const std::vector<std::string>& names) {
  constexpr std::size_t shown = 20, longest_shown = 64;
  std::string list;
  for (std::size_t i = 0; i < std::min(shown, names.size()); ++i)
    list += (i ? ", '" : "'") + printable(names[i].substr(0, longest_shown)) + "'";
  if (names.size() > shown) list += fmt::format(" and {} more", names.size() - shown);
  return list;
}

}  // namespace comera::data
