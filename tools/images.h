// Models of images in the verbs: their data and the answers of predict.
#pragma once

#include "tools/run_setup.h"
#include "tools/stored_model.h"

namespace comera::tools {

// True if the options name a model of images: its preset, or its task.
bool learns_images(const OptionValues& values);
// Sets --task and --model, each to the other's, where one of them is not given, and --seq to the model's tokens.
void settle_images(OptionValues& values);
void settle_image_tokens(OptionValues& values, const models::VitSpec& spec);

// The form of the model's images, with mean and deviation from the folder's preprocessor_config.json.
data::ImageFrame frame_of_folder(const models::VitSpec& spec, const std::string& folder);
// The data of a run. `labels` empty: those of the data.
void open_images(const OptionValues& values, RunSetup& setup, const std::vector<std::string>& labels);

// The data set of an evaluation.
std::shared_ptr<const data::Dataset> image_data(const OptionValues& values, const StoredModel& stored);
// Prints the class of every image of --data, or of the paths in the lines of standard input.
int predict_images(const OptionValues& values, StoredModel& stored);

}  // namespace comera::tools
