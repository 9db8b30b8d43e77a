#include "lib/data/clicks/click_block.h"

#include <algorithm>

namespace comera::data {
namespace {

void fill_bag(const ClickBlock::Bag& bag, std::span<const std::int64_t> rows, const CategoryColumn& column,
              Batch& batch) {
  const BagNames names(column.column);
  const auto ids = batch[names.ids.c_str()].as<std::int32_t>();
  if (!column.is_bag()) {
    for (std::size_t b = 0; b < rows.size(); ++b) ids[b] = bag.ids[static_cast<std::size_t>(rows[b])];
    return;
  }
  const auto offsets = batch[names.offsets.c_str()].as<std::int32_t>();
  const auto weights = column.weighs() ? batch[names.weights.c_str()].as<float>() : std::span<float>();
  std::fill(ids.begin(), ids.end(), 0);
  std::fill(weights.begin(), weights.end(), 0.0F);
  std::size_t used = 0;
  for (std::size_t b = 0; b < rows.size(); ++b) {
    const auto row = static_cast<std::size_t>(rows[b]);
    offsets[b] = static_cast<std::int32_t>(used);
    for (std::size_t i = row == 0 ? 0 : bag.ends[row - 1]; i < bag.ends[row]; ++i, ++used) {
      ids[used] = bag.ids[i];
      if (!weights.empty()) weights[used] = bag.weights[i];
    }
  }
  offsets[rows.size()] = static_cast<std::int32_t>(used);
}

}  // namespace

void ClickBlock::add(const ClickRow& row, const FeatureMap& map) {
  const Schema& schema = map.schema();
  bags.resize(schema.categories.size());
  labels.push_back(row.label);
  for (std::size_t i = 0; i < row.dense.size(); ++i) dense.push_back(map.number(i, row.dense[i]));
  std::uint32_t begin = 0;
  for (std::size_t column = 0; column < bags.size(); ++column) {
    const CategoryColumn& category = schema.categories[column];
    Bag& bag = bags[column];
    const std::uint32_t end =
        std::min<std::uint32_t>(row.ends[column], begin + static_cast<std::uint32_t>(category.most));
    for (std::uint32_t i = begin; i < end; ++i) {
      bag.ids.push_back(map.row(column, row.keys[i]));
      if (!category.weighs()) continue;
      const float value = row.values.empty() ? 1 : row.values[i];
      bag.weights.push_back(category.mean ? value / static_cast<float>(end - begin) : value);
    }
    bag.ends.push_back(static_cast<std::uint32_t>(bag.ids.size()));
    begin = row.ends[column];
  }
}

void shape_click_batch(const Schema& schema, std::int64_t rows, Batch& batch) {
  batch.sequences = rows;
  batch.length = 1;
  batch.tokens = rows;
  batch.add("dense", DType::f32, {rows, std::max<std::int64_t>(1, std::ssize(schema.dense))});
  batch.add("labels", DType::i32, {rows});
  batch.add("samples", DType::i64, {rows});
  for (const CategoryColumn& column : schema.categories) {
    const BagNames names(column.column);
    batch.add(names.ids.c_str(), DType::i32, {rows * column.most});
    if (column.is_bag()) batch.add(names.offsets.c_str(), DType::i32, {rows + 1});
    if (column.weighs()) batch.add(names.weights.c_str(), DType::f32, {rows * column.most});
  }
}

void collate_clicks(const ClickBlock& block, std::span<const std::int64_t> rows, const Schema& schema,
                    std::int64_t first_sample, Batch& batch) {
  shape_click_batch(schema, std::ssize(rows), batch);
  batch.counted = 0;
  const auto labels = batch["labels"].as<std::int32_t>();
  const auto samples = batch["samples"].as<std::int64_t>();
  const auto dense = batch["dense"].as<float>();
  const std::size_t numbers = schema.dense.size();
  if (numbers == 0) std::fill(dense.begin(), dense.end(), 1.0F);
  for (std::size_t b = 0; b < rows.size(); ++b) {
    const auto row = static_cast<std::size_t>(rows[b]);
    labels[b] = block.labels[row];
    samples[b] = first_sample + rows[b];
    batch.counted += labels[b] >= 0;
    std::copy_n(block.dense.begin() + static_cast<std::ptrdiff_t>(row * numbers), numbers,
                dense.begin() + static_cast<std::ptrdiff_t>(b * numbers));
  }
  for (std::size_t i = 0; i < schema.categories.size(); ++i) fill_bag(block.bags[i], rows, schema.categories[i], batch);
}

}  // namespace comera::data
