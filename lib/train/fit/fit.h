// --fit: the first choice whose planned memory lies below a figure.
#pragma once

#include <functional>
#include <optional>

#include "lib/engine/memory_table.h"
#include "lib/train/fit/choices.h"

namespace comera::train {

// The plan of a step.
struct PlannedStep {
  std::size_t bytes = 0;  // at the peak of all arenas, evaluation on dev data included
  engine::MemoryTable memory;
  std::optional<double> ms = {};  // of the step on this machine, predicted
  std::string refused = {};       // why these options make no run; "": they make one
};

// Plans a step with these options; nothing is allocated. Throws InputError for options that make no run.
using PlanStep = std::function<PlannedStep(const OptionValues&)>;

struct PlannedChoice {
  MemoryChoice choice;
  PlannedStep step;
};

struct Fit {
  std::size_t limit = 0;
  std::vector<PlannedChoice> rows;  // in the order of memory_choices(), see plan_choices()
  std::size_t chosen = 0;           // index of the row
};

// Plans every choice. Choices that make no run have `refused`. A form whose first choice makes none is not possible,
// and only that choice is in the rows. If no form is possible, the InputError of the first is thrown.
std::vector<PlannedChoice> plan_choices(const OptionValues& values, const std::vector<MemoryChoice>& choices,
                                        const PlanStep& plan);

// The first choice below `limit`. Without one throws an InputError with the least possible memory and its largest part.
Fit fit(const OptionValues& values, std::size_t limit, const RankCeiling& ceiling, const PlanStep& plan);

// For a run that does not fit: "--activations cheap needs 61.2 MiB by plan", the next choice in the order that needs
// less than `bytes` and no more than `free` (0: unknown), or the sentence that there is none.
std::string next_cheaper(const OptionValues& values, std::size_t bytes, std::size_t free, const PlanStep& plan);

}  // namespace comera::train
