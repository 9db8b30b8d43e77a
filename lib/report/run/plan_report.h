// The memory and work of a run before it starts: sizes of the model, memory table, FLOPs. The content of `--dry-run`
// and of the first lines of a run.
#pragma once

#include "lib/engine/memory_table.h"
#include "lib/layers/training/model.h"
#include "lib/report/weights/model_report.h"

namespace comera::report {

// The weights of a model that is not stored yet, as inspect would show the stored model (float32).
ModelReport report_of(const layers::Model& model, const std::string& name);

Table memory_table(const engine::MemoryTable& memory);     // by kind, and the peak
Table memory_by_place(const engine::MemoryTable& memory);  // all groups of tensors
Json memory_json(const engine::MemoryTable& memory);  // {weights, gradients, optimizer, saved, scratch, peak}, bytes

struct RunPlan {
  ModelReport model;
  engine::MemoryTable memory;
  std::int64_t tokens_per_step = 0;
};
Json to_json(const RunPlan& plan);
std::string to_text(const RunPlan& plan);

}  // namespace comera::report
