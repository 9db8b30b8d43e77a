// What --task regression adds to the verbs that train: whether labels are numbers, and where a new head starts.
#pragma once

#include "lib/core/options.h"
#include "lib/data/label_kind.h"
#include "lib/train/weights.h"
#include "models/architecture.h"

namespace comera::tools {

// What the labels of --data make of a task that was not given: classify, or regression where they are reals. `known`:
// labels of the model's classifier.
data::Task task_of_labels(const OptionValues& values, const std::vector<std::string>& known);

// A message where classes are many whole numbers, which may be meant as numbers.
void tell_whole_numbers(const OptionValues& values, const std::vector<std::string>& labels);

// InputError where the labels of the training data do not differ.
data::ScoreMoments moments_to_learn(const OptionValues& values, const data::Dataset& dataset);

// A new head's bias is the mean of the labels, and its random weights get their unit: the outputs start where the
// labels are.
void start_head(const models::ModelSpec& spec, const data::ScoreMoments& scores, train::Weights& weights);

}  // namespace comera::tools
