// Labelled rows of text in memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/data/files/text_reader.h"

namespace comera::data {

// Calls take(part) for each part of a text between separators that is not empty.
template <class Take>
void for_each_part(std::string_view text, std::string_view separators, const Take& take) {
  for (std::size_t begin = 0; (begin = text.find_first_not_of(separators, begin)) != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(separators, begin), text.size());
    take(text.substr(begin, end - begin));
    begin = end;
  }
}
constexpr std::string_view word_blanks = " \t";  // between the words of a tagged text
std::vector<std::string_view> words_of(std::string_view tagged_text);

// Rows of any number of files. Texts are stored one after another in blocks.
class Table {
 public:
  static constexpr std::uint64_t most_bytes = std::uint64_t{4} << 30;  // of texts, labels and the data of each row

  // If `labels` is empty, labels are collected from the rows in order of appearance until sort_labels().
  explicit Table(std::vector<std::string> labels = {});

  static constexpr float no_score = std::numeric_limits<float>::quiet_NaN();

  void add(std::string_view first, std::string_view second, std::int32_t label, float score = no_score);
  // Reads the rows of a file; those of a text file are its lines that are not blank. Errors name the file and the
  // line: an empty or unknown label, more than `most_bytes`.
  void read(TextReader& reader, const std::string& label_column);
  // The same for pairs of texts without labels. Errors: an empty text. `columns`: names of the two texts for messages.
  void read_pairs(TextReader& reader, const std::vector<std::string>& columns);
  // The same as read() for labels that are numbers. Errors: a label that is no number, or is outside the range of
  // float.
  void read_scores(TextReader& reader, const std::string& label_column);

  // The same for any number of labels of a row, separated by `label_separator` and any blanks beside it; a row's label
  // is the number of its set. An empty field is the empty set.
  static constexpr char label_separator = '|';
  void read_sets(TextReader& reader, const std::string& label_column);
  // The same for a label per word, both separated by blanks; the second text of a row is its labels. Errors: numbers of
  // words and labels that differ.
  void read_tags(TextReader& reader, const std::string& label_column);

  std::int64_t size() const { return static_cast<std::int64_t>(rows_.size()); }
  std::string_view text(std::int64_t row, int which) const;
  std::int32_t label(std::int64_t row) const { return rows_[static_cast<std::size_t>(row)].label; }
  // The labels of a set, ascending.
  const std::vector<std::int32_t>& label_set(std::int32_t number) const {
    return sets_[static_cast<std::size_t>(number)];
  }
  // Index of a label; -1 if it is unknown.
  std::int32_t find_label(std::string_view label) const;
  float score(std::int64_t row) const { return rows_[static_cast<std::size_t>(row)].score; }

  // Index of a label. An unknown label is added while labels are collected; otherwise the result is -1.
  std::int32_t label_of(std::string_view label);
  const std::vector<std::string>& labels() const { return labels_; }
  // Sorts labels as numbers if all of them are integers, else by their bytes, and renumbers the rows.
  void sort_labels();

 private:
  struct Stored {
    const char* begin = nullptr;       // of the first text; the second follows it
    std::uint32_t length[2] = {0, 0};  // bytes; the second is 0 if rows have one text
    std::int32_t label = -1;
    float score = no_score;
  };

  void set_labels(std::vector<std::string> labels);
  void renumber(const std::vector<std::int32_t>& rank);  // of the rows' labels
  // take(file, row) adds the row.
  template <class Take>
  void read_rows(TextReader& reader, const std::string& label_column, bool may_be_empty, const Take& take);
  // label_of(), or an InputError that names file and line.
  std::int32_t known_label(const std::string& file, const Row& row, std::string_view label);
  std::int32_t number_of_set(std::vector<std::int32_t> labels);

  std::vector<std::unique_ptr<char[]>> blocks_;
  std::size_t used_ = 0, room_ = 0;  // of the last block
  std::uint64_t bytes_ = 0;
  std::deque<Stored> rows_;
  std::vector<std::string> labels_;
  std::unordered_map<std::string, std::int32_t> label_index_;
  std::vector<std::vector<std::int32_t>> sets_;
  std::map<std::vector<std::int32_t>, std::int32_t> set_index_;
  bool collect_;
};

}  // namespace comera::data
