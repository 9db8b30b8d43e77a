#include "lib/data/clicks/feature_map.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <span>

#include "kernels/philox.h"
#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/hash.h"
#include "lib/core/terminal/log.h"
#include "lib/data/files/files.h"
#include "lib/io/safetensors.h"

namespace comera::data {

// Categories of a column in the order of their first appearance.
struct FeatureMap::Count {
  KeyTable index;
  std::vector<std::uint64_t> keys;
  std::vector<std::int32_t> counts;
  std::map<std::int32_t, std::int64_t> repeats;  // of `counts`, those beside another one in the same bag
  std::int64_t longest = 0, largest = -1;        // bag; number of a row
  bool weighted = false;

  void add(std::uint64_t key) {
    const std::int32_t at = index.add(key, static_cast<std::int32_t>(keys.size()));
    if (at == static_cast<std::int32_t>(keys.size())) keys.push_back(key), counts.push_back(0);
    counts[static_cast<std::size_t>(at)] += counts[static_cast<std::size_t>(at)] < INT32_MAX;
  }

  void add(std::span<const std::uint64_t> bag) {
    for (const std::uint64_t key : bag) add(key);
    if (bag.size() < 2) return;
    sorted.assign(bag.begin(), bag.end());
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 1; i < sorted.size(); ++i)
      if (sorted[i] == sorted[i - 1]) ++repeats[index.find(sorted[i])];
  }

  // Rows of the data that have a category.
  std::int64_t rows_with(std::int32_t at) const {
    const auto found = repeats.find(at);
    return counts[static_cast<std::size_t>(at)] - (found == repeats.end() ? 0 : found->second);
  }

 private:
  std::vector<std::uint64_t> sorted;  // a bag
};

void FeatureMap::count(const ClickRow& row, std::vector<Count>& counts) {
  std::uint32_t begin = 0;
  for (std::size_t column = 0; column < counts.size(); ++column) {
    Count& count = counts[column];
    const std::uint32_t end = row.ends[column];
    count.longest = std::max<std::int64_t>(count.longest, end - begin);
    if (schema_.categories[column].encoding == Encoding::vocabulary)
      count.add(std::span(row.keys).subspan(begin, end - begin));
    for (std::uint32_t i = begin; i < end; ++i) {
      if (schema_.categories[column].encoding == Encoding::id)
        count.largest = std::max(count.largest, static_cast<std::int64_t>(row.keys[i]));
      count.weighted = count.weighted || (!row.values.empty() && row.values[i] != 1);
    }
    begin = end;
  }
  for (std::size_t i = 0; i < row.dense.size(); ++i) {
    const double x = row.dense[i];
    if (std::isnan(x)) continue;
    // Welford's update: exactly 0 for a constant column, where a difference of sums leaves rounding.
    const double from_mean = x - means_[i];
    means_[i] += from_mean / ++known_[i];
    squares_[i] += from_mean * (x - means_[i]);
  }
  ++training_rows_;
}

void FeatureMap::settle(std::size_t number, Count& count, const FeatureRules& rules) {
  CategoryColumn& column = schema_.categories[number];
  if (column.most == 0) column.most = std::clamp<std::int64_t>(count.longest, 1, longest_bag);
  column.weighted = column.weighted || count.weighted;
  if (rules.min_count > 0) column.min_count = rules.min_count;
  std::vector<std::uint64_t> keys;
  if (column.encoding == Encoding::vocabulary) {
    std::vector<std::int32_t> order(count.keys.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int32_t a, std::int32_t b) { return count.counts[a] > count.counts[b]; });
    for (const std::int32_t at : order)
      if (count.rows_with(at) >= column.min_count) keys.push_back(count.keys[at]);
    column.rows = static_cast<std::int64_t>(keys.size()) + 1;
  } else if (column.rows == 0) {
    column.rows = count.largest + 1;
  }
  if (column.rows > most_rows)
    fail_input("[data] column '{}' has {} categories; a table has at most {} rows: use --hash-rows or --min-count",
               printable(column.column), column.rows, most_rows);
  if (rules.most_rows > 0 && column.rows > rules.most_rows) {
    column.encoding = Encoding::hash;
    column.rows = rules.most_rows;
    keys.clear();
  }
  column.rows = std::max<std::int64_t>(column.rows, 1);
  set_keys(number, std::move(keys));
}

void FeatureMap::set_keys(std::size_t column, std::vector<std::uint64_t> keys) {
  keys_.resize(schema_.categories.size());
  rows_.resize(schema_.categories.size());
  for (std::size_t i = 0; i < keys.size(); ++i) rows_[column].add(keys[i], static_cast<std::int32_t>(i + 1));
  keys_[column] = std::move(keys);
}

void FeatureMap::set_hash() {
  Hasher hasher;
  hasher.update(schema_json(schema_));
  for (const auto& keys : keys_) hasher.update(keys.data(), keys.size() * sizeof(std::uint64_t));
  hash_ = hasher.hex();
}

std::shared_ptr<const FeatureMap> FeatureMap::learn(const Schema& schema, const std::vector<std::string>& files,
                                                    const FeatureRules& rules) {
  const auto has_vocabulary = [](const CategoryColumn& column) { return column.encoding == Encoding::vocabulary; };
  if (rules.min_count > 0 && std::ranges::none_of(schema.categories, has_vocabulary))
    fail_input("[data] --min-count has no effect: the schema has no column with a vocabulary; leave it out");
  auto map = std::shared_ptr<FeatureMap>(new FeatureMap(schema));
  std::vector<Count> counts(schema.categories.size());
  for (auto* numbers : {&map->means_, &map->squares_, &map->known_}) numbers->resize(schema.dense.size());
  // The training data decide whether values weigh the rows, so that any value is read here.
  Schema any_values = schema;
  for (CategoryColumn& column : any_values.categories) column.weighted = true;
  for (const std::string& file : files) {
    ClickReader reader(file, any_values, ClickReader::Labels::required);
    Reading progress(file);
    for (ClickRow row; reader.next(row); progress.at(reader.lines())) map->count(row, counts);
  }
  if (map->training_rows_ == 0) fail_input("[data] {}: holds no rows to learn from", files.front());
  for (std::size_t i = 0; i < counts.size(); ++i) map->settle(i, counts[i], rules), counts[i] = {};
  for (std::size_t i = 0; i < schema.dense.size(); ++i) {
    const double variance = map->squares_[i] / std::max(map->known_[i], 1.0);
    map->schema_.dense[i].mean = map->means_[i];
    map->schema_.dense[i].deviation = variance > 0 ? std::sqrt(variance) : 1;
  }
  map->set_hash();
  return map;
}

std::shared_ptr<const FeatureMap> FeatureMap::load(const Schema& schema, const std::string& folder) {
  const std::string stored = join_path(folder, categories_name);
  if (!path_exists(stored)) fail_input("{}: is missing; it belongs to the folder of a model of clicks", stored);
  auto map = std::shared_ptr<FeatureMap>(new FeatureMap(schema));
  const io::SafetensorsFile file(stored);
  for (std::size_t i = 0; i < map->schema_.categories.size(); ++i) {
    const CategoryColumn& column = map->schema_.categories[i];
    if (column.encoding != Encoding::vocabulary) {
      map->set_keys(i, {});
      continue;
    }
    const io::StoredTensor* tensor = file.find(column.column);
    if (!tensor || tensor->type != io::StoredType::U64 || tensor->elements() + 1 != column.rows)
      fail_input("{}: tensor '{}' must hold {} keys of type U64, because the table has {} rows", stored,
                 printable(column.column), column.rows - 1, column.rows);
    std::vector<std::uint64_t> keys(static_cast<std::size_t>(tensor->elements()));
    const io::StoredBytes bytes = file.bytes(*tensor);
    if (!keys.empty()) std::memcpy(keys.data(), bytes.data(), bytes.size());
    map->set_keys(i, std::move(keys));
  }
  map->set_hash();
  return map;
}

void FeatureMap::save(const Folder& folder) const {
  std::vector<io::TensorToWrite> tensors;
  for (std::size_t i = 0; i < keys_.size(); ++i)
    if (schema_.categories[i].encoding == Encoding::vocabulary)
      tensors.push_back({schema_.categories[i].column,
                         io::StoredType::U64,
                         {static_cast<std::int64_t>(keys_[i].size())},
                         keys_[i].data(),
                         false});
  AtomicFile file(folder, categories_name);
  io::write_safetensors(file, tensors, {{"format", "comera categories"}},
                        [](const io::TensorToWrite& tensor, io::TensorSink& sink) {
                          sink.bytes(tensor.data, static_cast<std::size_t>(tensor.shape[0]) * sizeof(std::uint64_t));
                        });
}

std::int32_t FeatureMap::row(std::size_t column, std::uint64_t key) const {
  const CategoryColumn& category = schema_.categories[column];
  switch (category.encoding) {
    case Encoding::vocabulary: return std::max(rows_[column].find(key), 0);
    // The keys' low bits are places of KeyTable, so a second mix makes the row.
    case Encoding::hash:
      return static_cast<std::int32_t>(kernels::mix64(key) % static_cast<std::uint64_t>(category.rows));
    case Encoding::id: return static_cast<std::int32_t>(key);
  }
  return 0;
}

float FeatureMap::number(std::size_t column, float x) const {
  if (std::isnan(x)) return 0;
  const DenseColumn& dense = schema_.dense[column];
  switch (dense.transform) {
    case Transform::none: return x;
    case Transform::log: return std::log1p(std::max(x, 0.0F));
    case Transform::standard: return static_cast<float>((x - dense.mean) / dense.deviation);
  }
  return x;
}

}  // namespace comera::data
