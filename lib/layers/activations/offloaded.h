// Keeps values in pinned host memory (MEMO: Zhao et al. 2024, arXiv 2407.12117). A value is copied out beside the
// forward on a queue of its own, and back beside the backward before it is needed, so the gradients keep their bits.
//
// Of the bytes of a step only the share goes out that the copies can move while the forward computes. The rest stays
// on the device; with `cheap` or `block` it is computed again, as far as it can be. The schedule is part of the plan:
// at most `depth` values are on their way out, with their memory on the device, and as many are fetched ahead.
#pragma once

#include <memory>

#include "lib/layers/training/saved.h"

namespace comera::layers {

// A block of a model with n equal blocks, of which the last two keep their values on the device.
struct OffloadLimits {
  double always = 0, others = 0;  // bytes of a block: those that go out whatever the share is, and all others
  double bandwidth = 0;           // of copies to the host, bytes per second
  double seconds = 0;             // of the forward of a block
  double host_bytes = 0;          // of all copies
  std::int64_t blocks = 0;        // n
};

// MEMO's rule: the largest alpha in [0, 1] with (always + alpha others) / bandwidth <= seconds and
// (n - 2) (always + alpha others) <= host_bytes; 0 if there is none.
double offload_share(const OffloadLimits& limits);

struct OffloadSettings {
  double bandwidth = 20e9;  // bytes per second
  double speed = 50e12;     // FLOPs per second of a forward
  double host_bytes = 16.0 * (1 << 30);
  std::int64_t depth = 2;  // values on their way out, and values fetched ahead
};

std::unique_ptr<Keeper> make_offload_keeper(const OffloadSettings& settings);

}  // namespace comera::layers
