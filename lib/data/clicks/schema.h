// The columns of click data: which one is the label, which are numbers, which are categories, and how each becomes an
// input of a model.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace comera::data {

enum class ClickFormat : std::uint8_t { csv, tsv, libfm };

// A number x of a column: none: x; log: log(1 + max(x, 0)); standard: (x - mean) / deviation over the training data. A
// missing number becomes 0.
enum class Transform : std::uint8_t { none, log, standard };

struct DenseColumn {
  std::string column;
  Transform transform = Transform::none;
  double mean = 0, deviation = 1;  // standard
};

// How a category becomes a row of a table. vocabulary: row 0 for categories that are unknown or that fewer than
// `min_count` rows of the training data have, then those of the training data, the most frequent first; hash: a fixed
// function of the text; id: the text is the number of the row.
enum class Encoding : std::uint8_t { vocabulary, hash, id };

struct CategoryColumn {
  std::string column;
  Encoding encoding = Encoding::vocabulary;
  std::int64_t rows = 0;  // of the table; 0: the training data decides (hash: must be given)
  std::int64_t min_count = 1;
  std::string separator;  // between the categories of a bag; "": the field is one category
  std::int64_t most = 0;  // categories of a bag, further ones are dropped; 0: the longest bag of the training data
  bool mean = false;      // the table's rows are averaged instead of summed
  bool weighted = false;  // libFM: values other than 1 weigh the rows

  bool weighs() const { return mean || weighted; }
  bool is_bag() const { return most != 1 || !separator.empty() || weighs(); }
};

// libFM lines ("1 4:1 17:0.5") have no columns. With one category it is the bag of all entries of a line; with several
// they are the entries by position.
struct Schema {
  ClickFormat format = ClickFormat::csv;
  bool header = true;                // csv, tsv: the first line names the columns
  std::vector<std::string> columns;  // their names if there is no header
  std::string label;                 // csv, tsv
  std::vector<DenseColumn> dense;
  std::vector<CategoryColumn> categories;

  bool libfm_bag() const { return format == ClickFormat::libfm && categories.size() == 1; }
};

constexpr std::size_t most_categories = 100, most_dense = 1000;
constexpr std::int64_t most_rows = std::int64_t{1} << 30;  // of a table
constexpr std::int64_t longest_bag = 4096;

// Parses a schema: a JSON object with format ("csv", "tsv", "libfm"), header, columns, label, dense and categories, the
// last two lists of names or of objects with a name in "column". InputError that starts with `name` for unknown keys,
// for values of another kind, and for a column that is named twice or is not among `columns`.
Schema parse_schema(std::string_view text, const std::string& name);
// Reads a schema file. The same errors, and one for a key that would change nothing.
Schema read_schema(const std::string& path);
// Criteo's: tab separated, no header; label, I1 to I13 (log), C1 to C26.
Schema criteo_schema();
// That of a libFM file whose first line has `entries` entries: field_1, field_2, ...
Schema libfm_schema(std::size_t entries);
// JSON that parse_schema() reads back, mean and deviation included.
std::string schema_json(const Schema& schema);

}  // namespace comera::data
