// A second model that only answers: its outputs go into every batch as what the student is to reach.
#pragma once

#include <functional>
#include <memory>

#include "lib/train/step.h"

namespace comera::train {

class Teacher {
 public:
  // `engine` evaluates only. `output`: a name of lib/layers/distillation.h; `width`: columns of that output. `load`
  // fills the weights once their memory is there.
  using Load = std::function<void(Weights&)>;
  Teacher(std::unique_ptr<Engine> engine, const char* output, std::int64_t width, Load load);

  // Adds the output's shape to a batch that memory is planned for, and plans the teacher's own.
  void plan(Batch& batch);
  void allocate();
  // Adds what the teacher says to the batch.
  void teach(Batch& batch);

  std::size_t planned_bytes() const { return engine_->planned_bytes(); }
  std::size_t driver_bytes() const { return engine_->driver_bytes(); }
  // As one row per kind of memory, named "teacher"; its FLOPs are added `passes` times.
  void add_to(MemoryTable& table, std::int64_t passes) const;

 private:
  TensorView add_output(Batch& batch) const;

  std::unique_ptr<Engine> engine_;
  const char* output_;
  std::int64_t width_;
  Load load_;
};

}  // namespace comera::train
