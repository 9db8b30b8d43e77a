// A model of a folder, ready to be evaluated.
#pragma once

#include "lib/train/step.h"
#include "models/architecture.h"
#include "tools/machine.h"

namespace comera::tools {

struct StoredModel {
  std::string folder;
  OpenMachine open;
  models::ModelSpec spec;
  std::unique_ptr<train::Engine> engine;
  std::shared_ptr<const data::Tokenizer> tokenizer;
};

// The words of pretrain that say what data is, for verbs that only read it: --text, --data-format, --label,
// --tokenizer, --case, --seq, --batch,
// --document-end; and with --data.
std::vector<Option> line_options();
std::vector<Option> reading_options();

// `values` has machine_options(), precision_options() and line_options(). Where the folder's recipe.toml says how the
// model was trained,
// --text, --label, --case, --seq and --document-end follow it unless they are given.
StoredModel open_stored_model(OptionValues& values, const std::string& folder);
data::DataSpec reading_spec(const OptionValues& values, const StoredModel& stored,
                            const std::vector<std::string>& files);

// A --seq that was not asked for gives way to what the model can read, or says that it reads.
void settle_length(OptionValues& values, const models::ModelSpec& spec);
// InputError where the tokenizer knows more pieces than the model, or --seq is longer than its positions.
void check_lengths(const OptionValues& values, const models::ModelSpec& spec, const data::Tokenizer& tokenizer);

std::shared_ptr<const data::Tokenizer> open_tokenizer(const OptionValues& values,
                                                      const std::string& fallback);  // "": --tokenizer is needed

}  // namespace comera::tools
