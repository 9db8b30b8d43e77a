// Fixed batches of every task for small models.
#pragma once

#include <vector>

#include "lib/data/clicks/click_block.h"
#include "lib/data/files/table.h"
#include "models/architecture.h"
#include "tests/models/small_vit.h"

// Three examples, the last without a label. Bags have 2, 0 and 3 ids; one of them is in two bags.
inline comera::data::Batch small_click_batch(const comera::models::DlrmSpec& spec) {
  using namespace comera;
  data::Batch batch;
  data::shape_click_batch(spec.inputs, 3, batch);
  batch.counted = 2;
  const auto fill = [&](const std::string& name, const auto& values) {
    auto view = batch[name.c_str()].as<std::decay_t<decltype(values[0])>>();
    std::copy(values.begin(), values.end(), view.begin());
  };
  fill("dense", std::vector<float>{0.5F, -1, 2, 0.25F, 0, 1.5F});
  fill("labels", std::vector<std::int32_t>{1, 0, -1});
  fill("samples", std::vector<std::int64_t>{100, 101, 102});
  fill("ids.one", std::vector<std::int32_t>{7, 0, 7});
  fill("ids.weighted", std::vector<std::int32_t>{2, 9, 2});
  fill("offsets.weighted", std::vector<std::int32_t>{0, 1, 2, 3});
  fill("weights.weighted", std::vector<float>{0.5F, 2, -1});
  for (const char* name : {"sum", "mean"}) {
    fill(std::string("ids.") + name, std::vector<std::int32_t>{4, 9, 1, 9, 3, 0, 0, 0, 0});
    fill(std::string("offsets.") + name, std::vector<std::int32_t>{0, 2, 2, 5});
  }
  const float third = 1.0F / 3;
  fill("weights.mean", std::vector<float>{0.5F, 0.5F, third, third, third, 0, 0, 0, 0});
  return batch;
}

// The first sequence has two documents. The next token of the last one is unknown.
inline void add_causal_targets(comera::data::Batch& batch) {
  using comera::DType;
  const auto ids = batch["input_ids"].as<const std::int32_t>();
  const auto lengths = batch["lengths"].as<const std::int32_t>();
  auto targets = batch.add("targets", DType::i32, {3, 8}).as<std::int32_t>();
  auto begins = batch.add("key_begin", DType::i32, {3, 8}).as<std::int32_t>();
  auto positions = batch.add("position_ids", DType::i32, {3, 8}).as<std::int32_t>();
  for (std::int32_t k = 0; k < 24; ++k) {
    const std::int32_t t = k % 8, length = lengths[k / 8];
    begins[k] = k < 8 && t >= 3 ? 3 : 0;
    positions[k] = t - begins[k];
    targets[k] = t + 1 < length && k != 2 ? ids[k + 1] : -1;
    batch.counted += targets[k] >= 0;
  }
}

// Adds the labels of words, sets of labels, or partners that the task needs; some labels are unknown.
inline bool add_other_targets(const comera::models::Spec& spec, comera::data::Batch& batch) {
  using comera::DType;
  using comera::data::Task;
  if (spec.task == Task::tag) {
    auto labels = batch.add("word_labels", DType::i32, {3, 8}).as<std::int32_t>();
    for (std::int32_t k = 0; k < 24; ++k) labels[k] = k % 3 == 0 ? k % 2 : k == 1 ? -2 : -1;
    batch.counted = 8;
  } else if (spec.task == Task::multilabel) {
    auto sets = batch.add("label_sets", DType::i32, {3 * spec.outputs()}).as<std::int32_t>();
    for (std::int64_t i = 0; i < std::ssize(sets); ++i) sets[i] = i < spec.outputs() ? -1 : static_cast<int>(i % 2);
    batch.counted = 2 * spec.outputs();
  } else if (spec.task == Task::pairs) {
    auto partners = batch.add("partners", DType::i32, {2}).as<std::int32_t>();
    partners[0] = 0, partners[1] = 1;
    batch.counted = 2;
  } else {
    return false;
  }
  return true;
}

inline comera::data::Batch small_batch(const comera::models::ModelSpec& model) {
  using namespace comera;
  if (const auto* dlrm = std::get_if<models::DlrmSpec>(&model)) return small_click_batch(*dlrm);
  if (const auto* vit = std::get_if<models::VitSpec>(&model)) return small_image_batch(*vit);
  const models::Spec& spec = models::common(model);
  data::Batch batch;
  const int sequences = spec.task == data::Task::pairs ? 4 : 3;
  batch.sequences = sequences;
  batch.length = 8;
  const std::int64_t tokens = batch.sequences * 8;
  auto ids = batch.add("input_ids", DType::i32, {batch.sequences, 8}).as<std::int32_t>();
  auto types = batch.add("token_type_ids", DType::i32, {batch.sequences, 8}).as<std::int32_t>();
  auto lengths = batch.add("lengths", DType::i32, {batch.sequences}).as<std::int32_t>();
  auto samples = batch.add("samples", DType::i64, {batch.sequences}).as<std::int64_t>();
  for (std::int64_t k = 0; k < tokens; ++k)
    ids[k] = static_cast<std::int32_t>(k * 7 % spec.vocabulary), types[k] = k % 8 > 4;
  const std::int32_t each[] = {8, 5, 1, 6};
  for (int b = 0; b < sequences; ++b) lengths[b] = each[b], samples[b] = 100 + b;
  if (add_other_targets(spec, batch)) return batch;
  if (spec.task == data::Task::clm) {
    add_causal_targets(batch);
    return batch;
  }
  if (spec.task == data::Task::regression) {
    auto scores = batch.add("scores", DType::f32, {3}).as<float>();
    scores[0] = 1.5F, scores[1] = data::Table::no_score, scores[2] = -0.25F;
    batch.counted = 2;
    return batch;
  }
  if (spec.task == data::Task::classify || spec.task == data::Task::embed) {
    auto labels = batch.add("labels", DType::i32, {3}).as<std::int32_t>();
    for (int b = 0; b < 3; ++b) labels[b] = (b + 1) % 3;
    batch.counted = 3;
  } else {
    auto index = batch.add("masked_index", DType::i32, {4}).as<std::int32_t>();
    auto targets = batch.add("masked_targets", DType::i32, {4}).as<std::int32_t>();
    const std::int32_t rows[] = {2, 7, 9, -1}, words[] = {4, 0, 22, -1};
    for (int p = 0; p < 4; ++p) index[p] = rows[p], targets[p] = words[p];
    batch.counted = 3;
  }
  return batch;
}
