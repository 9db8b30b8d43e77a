// Reads rows of click data: a label, numbers and categories. CSV and TSV with or without a header, libFM lines; plain,
// .gz or .zst.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/data/clicks/schema.h"
#include "lib/data/files/fields.h"

namespace comera::data {

struct ClickRow {
  std::int64_t line = 0;     // at which the row begins
  std::int32_t label = -1;   // 0 or 1; -1: unknown
  std::vector<float> dense;  // NaN: missing
  // The keys of all categories, one column after another: a hash of the text, or the number itself (Encoding::id).
  std::vector<std::uint64_t> keys;
  std::vector<float> values;        // libFM: of each key
  std::vector<std::uint32_t> ends;  // of the keys of each column
};

// The key of a category: FNV-1a of its bytes, mixed.
std::uint64_t category_key(std::string_view text);

class ClickReader {
 public:
  enum class Labels : std::uint8_t { required, optional };

  // Starts at `offset` of the unpacked file, after `line` lines. InputErrors name file, line and column: a column that
  // is missing, too few or too many fields, a label that is not 0 or 1 (libFM: nor -1), a field that is no number, a
  // row number that is no whole number.
  ClickReader(const std::string& path, const Schema& schema, Labels labels, std::uint64_t offset = 0,
              std::int64_t line = 0);
  // Reads bytes of any source. `name` is for messages.
  ClickReader(std::unique_ptr<ByteStream> stream, std::string name, const Schema& schema, Labels labels);

  // Returns false at the end.
  bool next(ClickRow& row);
  LineReader& lines() { return *lines_; }

 private:
  void read_header();
  void split(std::string_view line);
  void take_columns(ClickRow& row);
  void take_libfm(std::string_view line, ClickRow& row);
  void take_category(const CategoryColumn& column, std::string_view text, ClickRow& row) const;
  void add_key(const CategoryColumn& column, std::string_view text, ClickRow& row) const;
  std::int32_t label_from(std::string_view text, std::int64_t line) const;
  float number_from(const DenseColumn& column, std::string_view text, std::int64_t line) const;

  const Schema schema_;
  Labels labels_;
  std::unique_ptr<LineReader> lines_;
  std::vector<std::string> names_;
  std::vector<std::size_t> dense_at_, categories_at_;
  std::size_t label_at_ = SIZE_MAX;  // SIZE_MAX: there is none
  std::int64_t first_empty_ = 0;
  Fields fields_;
};

}  // namespace comera::data
