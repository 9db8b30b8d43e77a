// Opens a model folder for evaluation.
#pragma once

#include "lib/data/clicks/feature_map.h"
#include "lib/data/images/image_frame.h"
#include "lib/engine/engine.h"
#include "models/architecture.h"
#include "tools/machine.h"
#include "tools/reading.h"

namespace comera::tools {

struct StoredModel {
  std::string folder;
  OpenMachine open;
  models::ModelSpec spec;
  std::unique_ptr<engine::Engine> engine;
  io::Reading reading;                               // of its training; empty: not known
  std::shared_ptr<const data::Tokenizer> tokenizer;  // null: the inputs are no text
  std::shared_ptr<const data::FeatureMap> features;  // of a model of clicks
  std::optional<data::ImageFrame> frame;             // of a model of images
};

// Options of pretrain that describe data, for verbs that only read it: --text, --data-format, --label, --tokenizer,
// --case, --seq, --batch, --document-end. reading_options() adds --data.
std::vector<Option> line_options();
// --adapter, and its folder; "" if it is not given.
Option adapter_option();
std::string adapter_of(const OptionValues& values);
std::vector<Option> reading_options();
// The labels of a predicted set (multilabel), separated as in data.
std::string labels_of_set(const std::vector<std::string>& labels, const std::vector<std::uint8_t>& set);

// `values` has machine_options(), precision_options() and line_options(). --text, --label, --case, --seq and
// --document-end default to those of the model's training (tools/reading.h).
StoredModel open_stored_model(OptionValues& values, const std::string& folder);
data::DataSpec reading_spec(const OptionValues& values, const StoredModel& stored,
                            const std::vector<std::string>& files);

// Sets --seq to the model's length if it is not given.
void settle_length(OptionValues& values, const models::ModelSpec& spec);
// Throws an InputError if the tokenizer has more pieces than the model, or --seq exceeds the model's positions.
void check_lengths(const OptionValues& values, const models::ModelSpec& spec, const data::Tokenizer& tokenizer);

// InputError for one of these options on the command line, which have no effect because of `why` ("MODEL is no
// decoder").
void refuse_options(const OptionValues& values, std::initializer_list<const char*> names, const std::string& why);

// The same for options of texts, if the task has none.
void refuse_options_of_texts(const OptionValues& values, data::Task task);

// The chat template beside the tokenizer; null without --chat.
std::shared_ptr<const data::ChatTemplate> open_chat(const OptionValues& values, const data::Tokenizer& tokenizer);
// InputError if the tokenizer in a run folder is not the one of its recipe: a copy of the model would read other words.
void require_own_vocabulary(const std::string& folder);
std::shared_ptr<const data::Tokenizer> open_tokenizer(const OptionValues& values,
                                                      const std::string& fallback);  // "": --tokenizer is required

}  // namespace comera::tools
