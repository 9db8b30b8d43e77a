// A second model for distillation: adds its outputs to every batch as targets of the student.
#pragma once

#include <functional>
#include <memory>

#include "lib/engine/engine.h"

namespace comera::train {

using data::Batch;
using engine::Engine;
using engine::MemoryTable;
using engine::Weights;

class Teacher {
 public:
  // `engine` is for evaluation only. `output`: a name of lib/layers/distillation.h; `width`: columns of that output.
  // `load` fills the weights once their memory is allocated.
  using Load = std::function<void(Weights&)>;
  Teacher(std::unique_ptr<Engine> engine, const char* output, std::int64_t width, Load load);

  // Adds the output's shape to a batch for memory planning, and plans the teacher's own memory.
  void plan(Batch& batch);
  void allocate();
  // Adds the teacher's outputs to the batch.
  void teach(Batch& batch);

  std::size_t planned_bytes() const { return engine_->planned_bytes(); }
  std::size_t driver_bytes() const { return engine_->driver_bytes(); }
  // Adds one row per kind of memory, named "teacher", and `passes` times its FLOPs.
  void add_to(MemoryTable& table, std::int64_t passes) const;

 private:
  TensorView add_output(Batch& batch) const;

  std::unique_ptr<Engine> engine_;
  const char* output_;
  std::int64_t width_;
  Load load_;
};

}  // namespace comera::train
