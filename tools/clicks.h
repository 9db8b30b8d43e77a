// Models of clicks in the verbs: their data, their measures, and the answers of predict.
#pragma once

#include "lib/report/run/evaluation.h"
#include "tools/run_setup.h"
#include "tools/stored_model.h"

namespace comera::tools {

// True if the options name a model of clicks: its preset, or its task.
bool learns_clicks(const OptionValues& values);
// Sets --task and --model, each to the other's, where one of them is not given.
void settle_clicks(OptionValues& values);

// The data of a run, with the map of the training data.
void open_clicks(const OptionValues& values, RunSetup& setup);

// The data set of an evaluation.
std::shared_ptr<const data::Dataset> click_data(const OptionValues& values, const StoredModel& stored);
// Prints the probability of a click for every row of --data or of standard input.
int predict_clicks(const OptionValues& values, StoredModel& stored);

}  // namespace comera::tools
