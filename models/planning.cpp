#include "models/planning.h"

#include <cstring>

namespace comera::models {

data::Batch planning_batch(const Spec& spec, std::int64_t sequences, std::int64_t length, double mask_probability) {
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
