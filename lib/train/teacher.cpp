#include "lib/train/teacher.h"

#include <cstring>
#include <string_view>
#include <utility>

#include "lib/core/error.h"
#include "lib/layers/distillation.h"

namespace comera::train {

Teacher::Teacher(std::unique_ptr<Engine> engine, const char* output, std::int64_t width, Load load)
    : engine_(std::move(engine)), output_(output), width_(width), load_(std::move(load)) {}

TensorView Teacher::add_output(Batch& batch) const {
  const std::string_view output = output_;
  const bool words = output == layers::teacher_decoder_input, masked = words && batch.has("masked_index");
  const std::int64_t tokens = words || output == layers::teacher_hidden ? batch.length : 1;
  return batch.add(output_, engine_->machine().dtype,
                   {masked ? batch["masked_index"].elements() : batch.sequences * tokens, width_});
}

void Teacher::plan(Batch& batch) {
  const TensorView view = add_output(batch);
  std::memset(view.data, 0, view.bytes());
  engine_->plan_evaluation(batch);
}

void Teacher::allocate() {
  engine_->allocate();
  load_(engine_->weights());
  engine_->weights_changed();
}

void Teacher::teach(Batch& batch) {
  if (batch.sequences == 0) return;
  const TensorView view = add_output(batch);
  const engine::Scores scores = engine_->evaluate(batch);
  const std::string_view output = output_;
  const std::span<const double> said = output == layers::teacher_embedding ? scores.embedding
                                       : output == layers::teacher_logits  ? scores.logits
                                                                           : scores.hidden;
  COMERA_CHECK(static_cast<std::int64_t>(said.size()) == view.shape.elements());
  const plan::Tensor host{view.data, view.dtype, view.shape, -1};
  for (std::size_t i = 0; i < said.size(); ++i) layers::store(host, static_cast<std::int64_t>(i), said[i]);
}

void Teacher::add_to(MemoryTable& table, std::int64_t passes) const {
  const MemoryTable own = engine_->memory_table(passes);
  table.add("teacher", own.bytes, 0);
  for (MemoryTable::Row& row : table.rows)
    if (row.group == "teacher") row.tensors = static_cast<int>(engine_->model().parameters().all().size());
  table.flops += own.flops;
  table.forward_flops += own.flops;
}

}  // namespace comera::train
