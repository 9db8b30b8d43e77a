#include "lib/data/clicks/schema.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/options/suggest.h"
#include "lib/core/terminal/log.h"
#include "lib/data/files/rows.h"
#include "lib/io/json_file.h"

namespace comera::data {
namespace {

using io::Json;

// Words of a JSON text and their values.
template <class Value>
struct Word {
  const char* text;
  Value value;
};
constexpr Word<ClickFormat> formats[] = {
    {"csv", ClickFormat::csv}, {"tsv", ClickFormat::tsv}, {"libfm", ClickFormat::libfm}};
constexpr Word<Transform> transforms[] = {
    {"none", Transform::none}, {"log", Transform::log}, {"standard", Transform::standard}};
constexpr Word<Encoding> encodings[] = {
    {"vocabulary", Encoding::vocabulary}, {"hash", Encoding::hash}, {"id", Encoding::id}};
constexpr Word<bool> poolings[] = {{"sum", false}, {"mean", true}};

template <class Value, std::size_t n>
const char* word_of(const Word<Value> (&words)[n], Value value) {
  for (const Word<Value>& word : words)
    if (word.value == value) return word.text;
  return "?";
}

// An object of the schema. Reads typed keys, and refuses those that nobody reads.
class Reader {
 public:
  Reader(const Json& json, std::string place, std::vector<std::string> keys) : json_(json), place_(std::move(place)) {
    if (!json.is_object()) fail_input("{}: must be a JSON object in braces", place_);
    for (const auto& [key, value] : json.items())
      if (std::find(keys.begin(), keys.end(), key) == keys.end())
        fail_input("{}: there is no key '{}'; the keys are {}{}", place_, printable(key), quoted_list(keys),
                   did_you_mean(key, keys));
  }

  const std::string& place() const { return place_; }
  bool has(const char* key) const { return json_.contains(key); }
  const Json& at(const char* key) const { return json_[key]; }

  std::string text(const char* key, const std::string& otherwise) const {
    if (!has(key)) return otherwise;
    if (!at(key).is_string()) fail(key, "a text in quotes");
    return at(key).get<std::string>();
  }
  std::int64_t integer(const char* key, std::int64_t otherwise, std::int64_t least, std::int64_t most) const {
    if (!has(key)) return otherwise;
    const double value = at(key).is_number_integer() ? at(key).get<double>() : -1;
    if (value < static_cast<double>(least) || value > static_cast<double>(most))
      fail(key, fmt::format("a whole number from {} to {}", least, most));
    return at(key).get<std::int64_t>();
  }
  double real(const char* key, double otherwise) const {
    if (!has(key)) return otherwise;
    if (!at(key).is_number()) fail(key, "a number");
    return at(key).get<double>();
  }
  bool flag(const char* key, bool otherwise) const {
    if (!has(key)) return otherwise;
    if (!at(key).is_boolean()) fail(key, "true or false");
    return at(key).get<bool>();
  }
  template <class Value, std::size_t n>
  Value word(const char* key, const Word<Value> (&words)[n], Value otherwise) const {
    if (!has(key)) return otherwise;
    std::vector<std::string> known;
    for (const Word<Value>& word : words) {
      if (at(key).is_string() && at(key).get<std::string>() == word.text) return word.value;
      known.emplace_back(word.text);
    }
    fail(key, "one of " + quoted_list(known));
  }
  [[noreturn]] void fail(const char* key, const std::string& wanted) const {
    fail_input("{}: '{}' must be {}", place_, key, wanted);
  }

 private:
  const Json& json_;
  std::string place_;
};

// The entries of a list: each a name, or an object with more. Calls take(Reader).
template <class Take>
void each_entry(const Reader& schema, const char* key, std::size_t most, const std::vector<std::string>& keys,
                const Take& take) {
  if (!schema.has(key)) return;
  const Json& list = schema.at(key);
  if (!list.is_array()) schema.fail(key, "a list in brackets");
  if (list.size() > most) schema.fail(key, fmt::format("a list of at most {} columns", most));
  for (std::size_t i = 0; i < list.size(); ++i) {
    Json named = Json::object();
    if (list[i].is_string()) named["column"] = list[i];
    take(Reader(list[i].is_string() ? named : list[i], fmt::format("{}: {}[{}]", schema.place(), key, i), keys));
  }
}

std::string name_in(const Reader& entry) {
  const std::string name = entry.text("column", "");
  if (name.empty()) fail_input("{}: 'column' is missing; name the column", entry.place());
  return name;
}

DenseColumn dense_from(const Reader& entry) {
  DenseColumn column;
  column.column = name_in(entry);
  column.transform = entry.word("transform", transforms, Transform::none);
  column.mean = entry.real("mean", 0);
  column.deviation = entry.real("deviation", 1);
  if (!(column.deviation > 0)) entry.fail("deviation", "above 0");
  return column;
}

// `whole_line`: the column is the bag of all entries of a libFM line.
CategoryColumn category_from(const Reader& entry, bool whole_line) {
  CategoryColumn column;
  column.column = name_in(entry);
  column.encoding = entry.word("encoding", encodings, Encoding::vocabulary);
  column.rows = entry.integer("rows", 0, 1, most_rows);
  column.min_count = entry.integer("min_count", 1, 1, most_rows);
  column.separator = entry.text("separator", "");
  const bool bag = whole_line || !column.separator.empty();
  column.most = entry.integer("most", bag ? 0 : 1, 0, longest_bag);
  column.mean = entry.word("pooling", poolings, false);
  column.weighted = entry.flag("weighted", false);
  if (column.encoding == Encoding::hash && column.rows == 0)
    fail_input("{}: 'rows' is missing: a hashed column needs the number of rows of its table", entry.place());
  return column;
}

void check_names(const Schema& schema, const std::string& name) {
  std::set<std::string> seen;
  std::vector<std::string> all;
  for (const DenseColumn& column : schema.dense) all.push_back(column.column);
  for (const CategoryColumn& column : schema.categories) all.push_back(column.column);
  if (!schema.label.empty()) all.push_back(schema.label);
  for (const std::string& column : all) {
    if (!seen.insert(column).second)
      fail_input("{}: column '{}' is named twice; a column has one use", name, printable(column));
    const auto& known = schema.columns;
    if (!known.empty() && std::find(known.begin(), known.end(), column) == known.end())
      fail_input("{}: there is no column '{}'; the columns are {}{}", name, printable(column), quoted_list(known),
                 did_you_mean(column, known));
  }
}

void check_schema(const Schema& schema, const std::string& name) {
  const bool libfm = schema.format == ClickFormat::libfm;
  if (schema.categories.empty())
    fail_input("{}: names no categories; a model of clicks needs one column of them or more", name);
  if (libfm && !schema.dense.empty()) fail_input("{}: libFM lines have no numbers beside the entries", name);
  if (!libfm && schema.label.empty()) fail_input("{}: 'label' is missing: name the column with 0 or 1", name);
  if (!libfm && !schema.header && schema.columns.empty())
    fail_input("{}: without a header 'columns' must name all columns in order", name);
  check_names(schema, name);
}

// A key of a schema file that would change nothing. A stored schema, which has what the training data decided, may hold
// it.
[[noreturn]] void fail_idle(const std::string& place, const char* key, const std::string& why) {
  fail_input("{}: '{}' has no effect: {}; leave it out", place, key, why);
}

void refuse_idle(const Json& entry, const CategoryColumn& column, const Schema& schema, const std::string& place) {
  const bool libfm = schema.format == ClickFormat::libfm;
  const bool bag = schema.libfm_bag() || !column.separator.empty();
  const char* one = libfm ? "with several categories each entry of a line is one"
                          : "the field is one category; name the 'separator' of a bag";
  if (column.encoding == Encoding::vocabulary && entry.contains("rows"))
    fail_idle(place, "rows", R"(a vocabulary has a row for each category; add "encoding": "hash" for a fixed number)");
  if (column.encoding != Encoding::vocabulary && column.min_count > 1)
    fail_idle(place, "min_count", "it is for a vocabulary, and this column has another 'encoding'");
  if (libfm && !column.separator.empty()) fail_idle(place, "separator", "libFM lines have no fields");
  if (!bag && column.most != 1) fail_idle(place, "most", one);
  if (!bag && column.mean) fail_idle(place, "pooling", one);
  if (!libfm && column.weighted) fail_idle(place, "weighted", "only entries of libFM lines have values");
}

void refuse_idle(const Json& json, const Schema& schema, const std::string& name) {
  const auto entries = [&](const char* key, const auto& take) {
    if (!json.contains(key)) return;
    for (std::size_t i = 0; i < json[key].size(); ++i) take(json[key][i], i, fmt::format("{}: {}[{}]", name, key, i));
  };
  for (const char* key : {"header", "columns", "label"})
    if (schema.format == ClickFormat::libfm && json.contains(key)) fail_idle(name, key, "libFM lines have no columns");
  if (schema.header && !schema.columns.empty())
    fail_idle(name, "columns", R"(the first line names the columns; add "header": false if it does not)");
  entries("dense", [&](const Json& entry, std::size_t, const std::string& place) {
    for (const char* key : {"mean", "deviation"})
      if (entry.contains(key)) fail_idle(place, key, "it is that of the training data");
  });
  entries("categories", [&](const Json& entry, std::size_t i, const std::string& place) {
    refuse_idle(entry, schema.categories[i], schema, place);
  });
}

Json dense_json(const DenseColumn& column) {
  Json json{{"column", column.column}, {"transform", word_of(transforms, column.transform)}};
  if (column.transform == Transform::standard) json["mean"] = column.mean, json["deviation"] = column.deviation;
  return json;
}

Json category_json(const CategoryColumn& column) {
  Json json{{"column", column.column}, {"encoding", word_of(encodings, column.encoding)}};
  if (column.rows > 0) json["rows"] = column.rows;
  if (column.min_count > 1) json["min_count"] = column.min_count;
  if (!column.separator.empty()) json["separator"] = column.separator;
  json["most"] = column.most;
  if (column.mean) json["pooling"] = "mean";
  if (column.weighted) json["weighted"] = true;
  return json;
}

Schema schema_from(const Json& json, const std::string& name) {
  const Reader reader(json, name, {"format", "header", "columns", "label", "dense", "categories"});
  Schema schema;
  schema.format = reader.word("format", formats, ClickFormat::csv);
  schema.header = reader.flag("header", true);
  schema.label = reader.text("label", "");
  each_entry(reader, "columns", most_dense + most_categories + 1000, {"column"},
             [&](const Reader& entry) { schema.columns.push_back(name_in(entry)); });
  each_entry(reader, "dense", most_dense, {"column", "transform", "mean", "deviation"},
             [&](const Reader& entry) { schema.dense.push_back(dense_from(entry)); });
  const bool whole_line =
      schema.format == ClickFormat::libfm && reader.has("categories") && reader.at("categories").size() == 1;
  each_entry(reader, "categories", most_categories,
             {"column", "encoding", "rows", "min_count", "separator", "most", "pooling", "weighted"},
             [&](const Reader& entry) { schema.categories.push_back(category_from(entry, whole_line)); });
  check_schema(schema, name);
  return schema;
}

}  // namespace

Schema parse_schema(std::string_view text, const std::string& name) {
  return schema_from(io::parse_json(text, name), name);
}

Schema read_schema(const std::string& path) {
  const Json json = io::parse_json(read_file(path, io::largest_config), path);
  Schema schema = schema_from(json, path);
  refuse_idle(json, schema, path);
  return schema;
}

Schema criteo_schema() {
  Schema schema;
  schema.format = ClickFormat::tsv;
  schema.header = false;
  schema.label = "label";
  schema.columns = {schema.label};
  for (int i = 1; i <= 13; ++i) schema.dense.push_back({fmt::format("I{}", i), Transform::log});
  for (int i = 1; i <= 26; ++i) schema.categories.emplace_back().column = fmt::format("C{}", i);
  for (const DenseColumn& column : schema.dense) schema.columns.push_back(column.column);
  for (CategoryColumn& column : schema.categories) column.most = 1, schema.columns.push_back(column.column);
  return schema;
}

Schema libfm_schema(std::size_t entries) {
  Schema schema;
  schema.format = ClickFormat::libfm;
  for (std::size_t i = 1; i <= entries; ++i) {
    schema.categories.emplace_back().column = fmt::format("field_{}", i);
    schema.categories.back().most = entries > 1 ? 1 : 0;
  }
  return schema;
}

std::string schema_json(const Schema& schema) {
  Json json{{"format", word_of(formats, schema.format)}};
  if (schema.format != ClickFormat::libfm) json["header"] = schema.header, json["label"] = schema.label;
  if (!schema.columns.empty()) json["columns"] = schema.columns;
  json["dense"] = Json::array();
  for (const DenseColumn& column : schema.dense) json["dense"].push_back(dense_json(column));
  json["categories"] = Json::array();
  for (const CategoryColumn& column : schema.categories) json["categories"].push_back(category_json(column));
  return io::json_text(json);
}

}  // namespace comera::data
