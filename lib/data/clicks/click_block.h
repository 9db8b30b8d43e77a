// Rows of click data in the form of a batch: numbers, and rows of tables.
#pragma once

#include <span>

#include "lib/data/batch.h"
#include "lib/data/clicks/feature_map.h"
#include "lib/data/loader.h"

namespace comera::data {

struct ClickBlock {
  struct Bag {
    std::vector<std::int32_t> ids;
    std::vector<std::uint32_t> ends;  // of each row's ids
    std::vector<float> weights;       // of each id, if the column weighs its rows
  };
  std::vector<std::int32_t> labels;
  std::vector<float> dense;  // [rows, columns]
  std::vector<Bag> bags;     // by column of categories
  LoaderState start, next;

  std::int64_t rows() const { return static_cast<std::int64_t>(labels.size()); }
  void add(const ClickRow& row, const FeatureMap& map);
};

// The names of a column's tensors in a batch.
struct BagNames {
  explicit BagNames(const std::string& column)
      : ids("ids." + column), offsets("offsets." + column), weights("weights." + column) {}
  std::string ids, offsets, weights;
};

// Adds tensors for B rows: dense f32 [B, D], and per column ids i32 [B * most], offsets i32 [B + 1] and weights f32
// [B * most] where they are needed; labels i32 [B], samples i64 [B]. Without columns of numbers, dense is [B, 1] with
// ones.
void shape_click_batch(const Schema& schema, std::int64_t rows, Batch& batch);
// Fills a batch with rows of the block. `first_sample`: number of row 0 of the block.
void collate_clicks(const ClickBlock& block, std::span<const std::int64_t> rows, const Schema& schema,
                    std::int64_t first_sample, Batch& batch);

}  // namespace comera::data
