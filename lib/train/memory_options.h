// Options that trade memory against time or exactness: how values are kept for the backward, and how dense linear
// weights are updated. `pretrain`, `finetune` and `bench` have them.
#pragma once

#include "lib/core/options/options.h"
#include "lib/engine/engine.h"
#include "lib/train/optimizer.h"

namespace comera::train {

// --activations and --optimizer in this group of help, and the settings of --activations compact.
std::vector<Option> memory_options(const char* group);
// Completes the words of --optimizer: its first one is a method for all, `of_all` if the call has none.
void complete_methods(OptionValues& values, const std::string& of_all);
// The same with default_method().
void settle_optimizer(OptionValues& values);
// InputError for a setting of the command line whose policy or method the call does not have, as
// refuse_without_effect().
void refuse_settings_without_effect(const OptionValues& values);
// Sets recomputation, the keeper, and the optimiser's method, without clipping for one that updates in the backward.
// Throws InputError if values contradict each other.
void read_memory_options(const OptionValues& values, engine::EngineOptions& engine, OptimizerOptions& optimizer);

}  // namespace comera::train
