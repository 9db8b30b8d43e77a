// Labelled rows of text from TSV and JSONL, checked line by line.
//
// TSV: the first line names the columns; fields are separated by tabs, nothing is quoted or escaped. JSONL: one object a line; strings
// are taken as they are, numbers and booleans as they are written. Lines that are empty at the end of a file are no rows.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace comera::data {

enum class Format : std::uint8_t { text, tsv, jsonl };

// By the name without .gz or .zst: .tsv, .jsonl (.json, .ndjson), else text.
Format format_of(const std::string& path);

struct Columns {
  std::vector<std::string> text;  // one or two
  std::string label;              // empty: no labels
};

// Rows of any number of files. Texts lie end to end in one buffer.
class Table {
 public:
  // `labels` empty: collected from the rows, in order of appearance, until sort_labels().
  explicit Table(std::vector<std::string> labels = {});

  struct Row {
    std::uint64_t begin = 0;           // of the first text in the buffer; the second follows it
    std::uint32_t length[2] = {0, 0};  // bytes; the second is 0 where rows have one text
    std::int32_t label = -1;
  };

  void add(std::string_view first, std::string_view second, std::int32_t label);
  std::int64_t size() const { return static_cast<std::int64_t>(rows_.size()); }
  std::string_view text(std::int64_t row, int which) const;
  std::int32_t label(std::int64_t row) const { return rows_[static_cast<std::size_t>(row)].label; }

  // Index of a label; a new one is added while labels are collected, else -1.
  std::int32_t label_of(std::string_view label);
  const std::vector<std::string>& labels() const { return labels_; }
  // As numbers where all of them are integers, else by their bytes. Rows are renumbered.
  void sort_labels();

 private:
  std::string buffer_;
  std::vector<Row> rows_;
  std::vector<std::string> labels_;
  std::unordered_map<std::string, std::int32_t> label_index_;
  bool collect_;
};

// Errors name `name` and the line: a column that is missing (with those that exist), a row with too few or too many fields, an empty
// or unknown label, text that is not UTF-8, a line that is not a JSON object, a key that is missing.
void parse_rows(std::string_view text, const std::string& name, Format format, const Columns& columns, Table& table);
void read_rows(const std::string& path, const Columns& columns, Table& table);
// A text file's lines that are not blank, one row each, without labels.
void read_lines(const std::string& path, Table& table);

// Every text of a file: the lines of text, the named columns of TSV and JSONL ("text" of JSONL where none is named).
void read_texts(const std::string& path, const std::vector<std::string>& columns, const std::function<void(std::string_view)>& visit);

// The text under `key` of one line of JSONL.
std::string json_text(std::string_view line, const std::string& key, const std::string& name, std::int64_t number);

}  // namespace comera::data
