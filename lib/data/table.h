// Labelled rows of text in memory.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/data/text_reader.h"

namespace comera::data {

// Rows of any number of files. Texts lie end to end in blocks.
class Table {
 public:
  static constexpr std::uint64_t most_bytes = std::uint64_t{4} << 30;  // of texts, labels and what is kept of each row

  // `labels` empty: collected from the rows, in order of appearance, until sort_labels().
  explicit Table(std::vector<std::string> labels = {});

  static constexpr float no_score = std::numeric_limits<float>::quiet_NaN();

  void add(std::string_view first, std::string_view second, std::int32_t label, float score = no_score);
  // The rows of a file; those of a text file are its lines that are not blank. Errors name the file and the line: an
  // empty or unknown label, more than `most_bytes`.
  void read(TextReader& reader, const std::string& label_column);
  // The same where the label is a number. Errors: a label that is no number, or none that a float holds.
  void read_scores(TextReader& reader, const std::string& label_column);

  std::int64_t size() const { return static_cast<std::int64_t>(rows_.size()); }
  std::string_view text(std::int64_t row, int which) const;
  std::int32_t label(std::int64_t row) const { return rows_[static_cast<std::size_t>(row)].label; }
  float score(std::int64_t row) const { return rows_[static_cast<std::size_t>(row)].score; }

  // Index of a label; a new one is added while labels are collected, else -1.
  std::int32_t label_of(std::string_view label);
  const std::vector<std::string>& labels() const { return labels_; }
  // As numbers where all of them are integers, else by their bytes. Rows are renumbered.
  void sort_labels();

 private:
  struct Stored {
    const char* begin = nullptr;       // of the first text; the second follows it
    std::uint32_t length[2] = {0, 0};  // bytes; the second is 0 where rows have one text
    std::int32_t label = -1;
    float score = no_score;
  };

  void set_labels(std::vector<std::string> labels);
  // take(row): what a row is added as.
  template <class Take>
  void read_rows(TextReader& reader, const std::string& label_column, const Take& take);

  std::vector<std::unique_ptr<char[]>> blocks_;
  std::size_t used_ = 0, room_ = 0;  // of the last block
  std::uint64_t bytes_ = 0;
  std::deque<Stored> rows_;
  std::vector<std::string> labels_;
  std::unordered_map<std::string, std::int32_t> label_index_;
  bool collect_;
};

}  // namespace comera::data
