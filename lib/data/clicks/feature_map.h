// What a model of clicks needs to know of its training data: the rows of its tables, and the category of each row.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/core/files/folder.h"
#include "lib/data/clicks/click_reader.h"
#include "lib/data/clicks/key_table.h"

namespace comera::data {

// Changes of the columns in a schema; 0: as the schema says.
struct FeatureRules {
  std::int64_t min_count = 0;
  // A table with more rows becomes one of so many, by the hashing trick (Weinberger et al. 2009, arXiv 0902.2206).
  std::int64_t most_rows = 0;
};

// Row numbers of categories and values of numbers. In a map every size of the schema is known.
class FeatureMap {
 public:
  static constexpr const char* categories_name = "categories.safetensors";  // a U64 tensor of keys for each column

  // Reads the training data once. Memory: 17 to 40 bytes for each different category.
  static std::shared_ptr<const FeatureMap> learn(const Schema& schema, const std::vector<std::string>& files,
                                                 const FeatureRules& rules);
  // The map of a model folder, whose config.json has the schema. InputError if the file of categories is missing or
  // disagrees with the schema.
  static std::shared_ptr<const FeatureMap> load(const Schema& schema, const std::string& folder);
  void save(const Folder& folder) const;

  const Schema& schema() const { return schema_; }
  std::int64_t training_rows() const { return training_rows_; }  // 0 after load()
  const std::string& hash() const { return hash_; }

  // The row of a key in the table of a column.
  std::int32_t row(std::size_t column, std::uint64_t key) const;
  // The number that the model reads.
  float number(std::size_t column, float number) const;

 private:
  struct Count;
  explicit FeatureMap(Schema schema) : schema_(std::move(schema)) {}
  void count(const ClickRow& row, std::vector<Count>& counts);
  void settle(std::size_t column, Count& count, const FeatureRules& rules);
  void set_keys(std::size_t column, std::vector<std::uint64_t> keys);
  void set_hash();

  Schema schema_;
  std::vector<std::vector<std::uint64_t>> keys_;  // vocabulary: of row 1, 2, ...
  std::vector<KeyTable> rows_;
  std::int64_t training_rows_ = 0;
  std::string hash_;
  std::vector<double> means_, squares_, known_;  // of numbers, while the map is made; squares: of distances to the mean
};

}  // namespace comera::data
