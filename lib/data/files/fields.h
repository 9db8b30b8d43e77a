// Splits rows of TSV and CSV files into fields.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/data/files/line_reader.h"

namespace comera::data {

constexpr std::size_t most_columns = 1 << 16;  // of a row

// The fields of one row.
class Fields {
 public:
  void clear() {
    text_.clear();
    ends_.clear();
  }
  void append(std::string_view part) { text_ += part; }
  void end_field(const LineReader& lines);  // InputError beyond `most_columns`

  std::size_t count() const { return ends_.size(); }
  std::size_t bytes() const { return text_.size(); }
  std::string_view operator[](std::size_t i) const {
    const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(text_).substr(begin, ends_[i] - begin);
  }

 private:
  std::string text_;  // the fields one after another, without quotes
  std::vector<std::size_t> ends_;
};

// Fills `fields` with those of one line.
void split_tsv(std::string_view line, const LineReader& lines, Fields& fields);
// Fills `fields` with the row of a CSV (RFC 4180) that begins with this line; reads further lines while a quote is
// open. InputError for a misplaced or unclosed quote.
void split_csv(std::string_view line, LineReader& lines, Fields& fields);

// Index of the only column of that name. InputError that lists the columns if there is none, or if there are two.
// `option` names columns, "" if a schema does.
std::size_t column_of(const std::string& column, const std::vector<std::string>& names, const std::string& file,
                      std::string_view option = {});
// The end of a message on a column or key that is not among `names`: a similar name, or the option to change.
std::string name_another(const std::string& column, const std::vector<std::string>& names, std::string_view option);

}  // namespace comera::data
