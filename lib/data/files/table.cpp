#include "lib/data/files/table.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "lib/core/error.h"
#include "lib/core/options/suggest.h"
#include "lib/core/terminal/log.h"
#include "lib/data/files/files.h"
#include "lib/data/label_kind.h"

namespace comera::data {
namespace {

constexpr std::size_t block_bytes = std::size_t{1} << 20;

bool is_integer(const std::string& text, std::int64_t& value) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  return result.ec == std::errc() && result.ptr == end && std::to_string(value) == text;
}

}  // namespace

std::vector<std::string_view> words_of(std::string_view tagged_text) {
  std::vector<std::string_view> words;
  for_each_part(tagged_text, word_blanks, [&](std::string_view word) { words.push_back(word); });
  return words;
}

Table::Table(std::vector<std::string> labels) : collect_(labels.empty()) { set_labels(std::move(labels)); }

void Table::set_labels(std::vector<std::string> labels) {
  labels_ = std::move(labels);
  label_index_.clear();
  for (std::size_t i = 0; i < labels_.size(); ++i) label_index_.emplace(labels_[i], static_cast<std::int32_t>(i));
}

void Table::add(std::string_view first, std::string_view second, std::int32_t label, float score) {
  const std::size_t size = first.size() + second.size();
  if (blocks_.empty() || room_ - used_ < size) {
    room_ = std::max(block_bytes, size);
    used_ = 0;
    bytes_ += room_;
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(room_));
  }
  char* const begin = blocks_.back().get() + used_;
  std::copy(second.begin(), second.end(), std::copy(first.begin(), first.end(), begin));
  used_ += size;
  bytes_ += sizeof(Stored);
  rows_.push_back(
      {begin, {static_cast<std::uint32_t>(first.size()), static_cast<std::uint32_t>(second.size())}, label, score});
}

template <class Take>
void Table::read_rows(TextReader& reader, const std::string& label_column, bool may_be_empty, const Take& take) {
  const std::string& file = reader.lines().path();
  Reading reading(file);
  for (Row row; reader.next(row); reading.at(reader.lines())) {
    if (!reader.is_table() && is_blank(row.text[0])) continue;
    if (!label_column.empty() && row.label.empty() && !may_be_empty)
      fail_input("[data] {}: line {}: the label (column '{}') is empty", file, row.line, label_column);
    take(file, row);
    if (bytes_ > most_bytes)
      fail_input(
          "[data] {}: line {}: the rows up to here take more than {} GiB, and all of them are kept in memory; use "
          "fewer rows or shorter texts",
          file, row.line, most_bytes >> 30);
  }
}

void Table::read(TextReader& reader, const std::string& label_column) {
  read_rows(reader, label_column, false, [&](const std::string& file, const Row& row) {
    add(row.text[0], row.text[1], label_column.empty() ? -1 : known_label(file, row, row.label));
  });
}

void Table::read_pairs(TextReader& reader, const std::vector<std::string>& columns) {
  read_rows(reader, "", false, [&](const std::string& file, const Row& row) {
    for (std::size_t i = 0; i < 2; ++i)
      if (is_blank(row.text[i]))
        fail_input(
            "[data] {}: line {}: the text (column '{}') is empty; a pair is of two texts: write the text, or remove "
            "the row",
            file, row.line, columns.at(i));
    add(row.text[0], row.text[1], -1);
  });
}

std::int32_t Table::known_label(const std::string& file, const Row& row, std::string_view label) {
  const std::int32_t index = label_of(label);
  if (index < 0)
    fail_input("[data] {}: line {}: unknown label '{}'; the labels are {}{}", file, row.line, printable(label),
               quoted_list(labels_), did_you_mean(label, labels_));
  return index;
}

std::int32_t Table::number_of_set(std::vector<std::int32_t> labels) {
  std::sort(labels.begin(), labels.end());
  labels.erase(std::unique(labels.begin(), labels.end()), labels.end());
  const auto [found, fresh] = set_index_.try_emplace(std::move(labels), static_cast<std::int32_t>(sets_.size()));
  if (fresh) sets_.push_back(found->first), bytes_ += 2 * found->first.size() * sizeof(std::int32_t);
  return found->second;
}

void Table::read_sets(TextReader& reader, const std::string& label_column) {
  read_rows(reader, label_column, true, [&](const std::string& file, const Row& row) {
    if (label_column.empty()) return add(row.text[0], row.text[1], -1);
    std::vector<std::int32_t> labels;
    for_each_part(row.label, {&label_separator, 1}, [&](std::string_view part) {
      const std::size_t first = part.find_first_not_of(word_blanks), last = part.find_last_not_of(word_blanks);
      if (first != std::string_view::npos)
        labels.push_back(known_label(file, row, part.substr(first, last - first + 1)));
    });
    add(row.text[0], row.text[1], number_of_set(std::move(labels)));
  });
}

void Table::read_tags(TextReader& reader, const std::string& label_column) {
  read_rows(reader, label_column, false, [&](const std::string& file, const Row& row) {
    const std::size_t words = words_of(row.text[0]).size();
    std::size_t tags = 0;
    for (const std::string_view label : words_of(row.label)) known_label(file, row, label), ++tags;
    if (words != tags && !label_column.empty())
      fail_input(
          "[data] {}: line {}: the text has {} words and column '{}' has {} labels; write one label per word, both "
          "separated by blanks",
          file, row.line, words, label_column, tags);
    add(row.text[0], row.label, -1);
  });
}

void Table::read_scores(TextReader& reader, const std::string& label_column) {
  read_rows(reader, label_column, false, [&](const std::string& file, const Row& row) {
    if (label_column.empty()) return add(row.text[0], row.text[1], -1);
    const std::optional<double> score = score_of(row.label);
    if (!score || !std::isfinite(static_cast<float>(*score)))
      fail_input(
          "[data] {}: line {}: the label '{}' (column '{}') is {}; a regression learns numbers, and --task classify "
          "takes labels as classes",
          file, row.line, printable(row.label), label_column,
          score ? "larger than a float can be" : "no finite number");
    add(row.text[0], row.text[1], -1, static_cast<float>(*score));
  });
}

std::string_view Table::text(std::int64_t row, int which) const {
  const Stored& found = rows_[static_cast<std::size_t>(row)];
  return {found.begin + (which ? found.length[0] : 0), found.length[which]};
}

std::int32_t Table::find_label(std::string_view label) const {
  const auto found = label_index_.find(std::string(label));
  return found == label_index_.end() ? -1 : found->second;
}

std::int32_t Table::label_of(std::string_view label) {
  if (const std::int32_t found = find_label(label); found >= 0 || !collect_) return found;
  constexpr std::size_t beside = 128;  // estimated bytes of the index per label
  bytes_ += 2 * label.size() + beside;
  labels_.emplace_back(label);
  return label_index_[labels_.back()] = static_cast<std::int32_t>(labels_.size()) - 1;
}

void Table::sort_labels() {
  std::vector<std::int64_t> numbers(labels_.size());
  bool integers = true;
  for (std::size_t i = 0; i < labels_.size(); ++i) integers = integers && is_integer(labels_[i], numbers[i]);
  std::vector<std::size_t> order(labels_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return integers ? numbers[a] < numbers[b] : labels_[a] < labels_[b]; });
  std::vector<std::string> sorted;
  std::vector<std::int32_t> rank(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    sorted.push_back(labels_[order[i]]);
    rank[order[i]] = static_cast<std::int32_t>(i);
  }
  set_index_.clear();
  for (std::size_t number = 0; number < sets_.size(); ++number) {
    for (std::int32_t& label : sets_[number]) label = rank[static_cast<std::size_t>(label)];
    std::sort(sets_[number].begin(), sets_[number].end());
    set_index_.emplace(sets_[number], static_cast<std::int32_t>(number));
  }
  if (sets_.empty()) renumber(rank);
  set_labels(std::move(sorted));
  collect_ = labels_.empty();
}

void Table::renumber(const std::vector<std::int32_t>& rank) {
  for (Stored& row : rows_)
    if (row.label >= 0) row.label = rank[static_cast<std::size_t>(row.label)];
}

}  // namespace comera::data
