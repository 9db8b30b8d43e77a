#include "models/planning.h"

#include <cstring>

namespace comera::models {

data::Batch planning_batch(const Spec& spec, std::int64_t sequences, std::int64_t length, double mask_probability) {
  const std::int64_t pairs = sequences;
  if (spec.task == Task::pairs) sequences *= 2;
  data::Batch batch;
  batch.sequences = sequences;
  batch.length = length;
  const auto add = [&](const char* name, DType dtype, Shape shape) {
    const TensorView view = batch.add(name, dtype, shape);
    std::memset(view.data, 0, view.bytes());
  };
  add("input_ids", DType::i32, {sequences, length});
  add("token_type_ids", DType::i32, {sequences, length});
  add("lengths", DType::i32, {sequences});
  add("samples", DType::i64, {sequences});
  if (spec.task == Task::regression) {
    add("scores", DType::f32, {sequences});
  } else if (spec.task == Task::multilabel) {
    add("label_sets", DType::i32, {sequences * spec.outputs()});
  } else if (spec.task == Task::tag) {
    add("word_labels", DType::i32, {sequences, length});
  } else if (spec.task == Task::pairs) {
    add("partners", DType::i32, {pairs});
  } else if (!predicts_words(spec.task)) {
    add("labels", DType::i32, {sequences});
  } else if (spec.task == Task::clm) {
    for (const char* name : {"targets", "key_begin", "position_ids"}) add(name, DType::i32, {sequences, length});
  } else {
    const std::int64_t capacity = data::masked_capacity(sequences, length, mask_probability);
    add("masked_index", DType::i32, {capacity});
    add("masked_targets", DType::i32, {capacity});
  }
  return batch;
}

}  // namespace comera::models
