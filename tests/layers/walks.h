// Runs steps in walks on the reference backend.
#pragma once

#include "lib/plan/slab.h"
#include "lib/plan/walk.h"

namespace comera {

// Runs `steps` in a recording walk, then in a replay with memory. Both end without a tensor that is still held.
template <class Steps>
void walk_twice(DType dtype, const Steps& steps) {
  const plan::Machine machine{&kernels::reference_backend(), dtype, nullptr};
  plan::Plan recorded;
  plan::Walk record(machine, recorded);
  steps(record);
  record.end();
  plan::Arena arena(kernels::reference_backend(), recorded.bytes, "test");
  plan::Walk replay(machine, recorded, arena.data());
  steps(replay);
  replay.end();
}

}  // namespace comera
