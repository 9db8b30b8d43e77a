// What a training verb has to settle before it trains: folder, recipe, data, model, machine.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "lib/data/label_kind.h"
#include "lib/report/run_report.h"
#include "lib/train/run_folder.h"
#include "models/architecture.h"
#include "tools/machine.h"

namespace comera::tools {

struct RunSetup {
  std::string folder;
  std::unique_ptr<train::RunFolder> run;  // of `folder`, open and locked where it is there
  bool resume = false;                    // there is a run to go on with
  OpenMachine open;
  std::unique_ptr<plan::PathChoices>
      paths;  // of open.machine, from the recipe and from measurements; null where nothing is run
  std::shared_ptr<const data::Tokenizer> tokenizer;
  std::shared_ptr<const data::Dataset> data, dev;  // dev may be null
  data::ScoreMoments scores;                       // regression: of the labels of `data`
  models::ModelSpec spec;
  layers::ModelFactory factory;
  std::unique_ptr<train::Teacher> teacher;     // may be null
  std::function<void(train::Weights&)> start;  // where the weights of a fresh run come from; none: they are random
  std::string source;                          // the folder they come from, whose other files go along
  train::TrainOptions options;
  std::string recipe;  // text of recipe.toml
};

// The recipe of the run that --resume goes on with: of the folder that it names, else of --output's; none without
// --resume, and where there is no run but data to begin one with.
std::optional<std::string> recipe_to_resume(const OptionValues& values);

// The run folder: --output, or what --resume names. On resume the options that are not given are those of the folder's
// recipe, and those that are must not change the result. InputError for a folder that is taken, or that is, holds or
// lies in what the run reads.
void settle_folder(OptionValues& values, RunSetup& setup);

// A run of pretrain.
RunSetup set_up_run(OptionValues& values);

// Its parts: folder and options, before anything is read; the data; then, with spec and factory there, the recipe.
RunSetup begin_setup(OptionValues& values);
// `tokenizer_folder`: where --tokenizer is not given. `labels` empty: taken from the data.
void open_data(const OptionValues& values, RunSetup& setup, const std::string& tokenizer_folder,
               const std::vector<std::string>& labels);
void open_computer(const OptionValues& values, RunSetup& setup);  // machine and factory, once spec is there
void finish_setup(const OptionValues& values, RunSetup& setup);

// What --dry-run needs: the model of the options, with the preset's vocabulary and labels, or the tokenizer's where one
// is given.
RunSetup setup_without_data(const OptionValues& values);

// What a head shows of the options: those that were given, and the ones that always matter.
report::Facts settings_of(const OptionValues& values);

}  // namespace comera::tools
