// Support for --task regression in the training verbs: detection of numeric labels, and the start values of a new head.
#pragma once

#include "lib/core/options/options.h"
#include "lib/data/label_kind.h"
#include "lib/engine/weights.h"
#include "models/architecture.h"

namespace comera::tools {

// True if --data is a table with the column of --label, or of its default name.
bool has_label_column(const OptionValues& values);

// Task for the labels of --data if --task is not given: regression if the labels are real numbers, else classify.
// `known`: labels of the model's classifier.
data::Task task_of_labels(const OptionValues& values, const std::vector<std::string>& known);

// Logs a hint if there are many classes and all are whole numbers, which may be meant as numbers.
void tell_whole_numbers(const OptionValues& values, const std::vector<std::string>& labels);

// Throws an InputError if all labels of the training data are equal.
data::ScoreMoments moments_to_learn(const OptionValues& values, const data::TextDataset& dataset);

// Sets the bias of a new head to the mean of the labels, and scales its random weights by their deviation. The outputs
// then start in the range of the labels.
void start_head(const models::ModelSpec& spec, const data::ScoreMoments& scores, engine::Weights& weights);

}  // namespace comera::tools
