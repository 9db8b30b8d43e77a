// Everything that a training verb prepares before it trains: folder, recipe, data, model, machine.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "lib/data/clicks/feature_map.h"
#include "lib/data/label_kind.h"
#include "lib/report/run/run_report.h"
#include "lib/train/fit/fit.h"
#include "lib/train/run_folder.h"
#include "lib/tuning/path_choices.h"
#include "models/architecture.h"
#include "tools/machine.h"

namespace comera::tools {

struct RunSetup {
  std::string folder;
  std::unique_ptr<train::RunFolder> run;  // the run at `folder`, open and locked if the folder exists
  bool resume = false;                    // the folder has a run to resume
  OpenMachine open;
  // For open.machine, from the recipe and from measurements; null if nothing is run.
  std::unique_ptr<tuning::PathChoices> paths;
  std::shared_ptr<const data::Tokenizer> tokenizer;  // null: the inputs are no text
  std::shared_ptr<const data::FeatureMap> features;  // ctr
  std::shared_ptr<const data::Dataset> data, dev;    // dev may be null
  data::ScoreMoments scores;                         // regression: moments of the labels of `data`
  models::ModelSpec spec;
  layers::ModelFactory factory, student;  // student: the factory before a teacher was added
  // The model of other options; null: options do not change the model.
  std::function<models::ModelSpec(const OptionValues&)> spec_of;
  std::function<void(OptionValues&)> settle;    // sets the defaults that follow from other options; may be null
  std::optional<train::Fit> fit;                // of --fit
  report::Facts assumed;                        // --dry-run: numbers that data would give
  std::unique_ptr<train::Teacher> teacher;      // may be null
  std::function<void(engine::Weights&)> start;  // sets the weights of a fresh run; none: random weights
  std::string source;                           // the folder of these weights; its other files are copied to the output
  train::TrainOptions options;
  std::string recipe;  // text of recipe.toml
};

// The recipe of the run that --resume continues, from the folder that --resume names or else from --output. None
// without --resume, and none if no run exists but --data allows a new one.
std::optional<std::string> recipe_to_resume(const OptionValues& values);
// The reason why --resume finds no run at `path`, and the remedy.
std::string why_no_run(const std::string& path);
// --config names the recipe of a run: options that it lacks have the values of the version that wrote it.
void complete_repeated(OptionValues& values);

// Opens the run folder: --output, or the folder that --resume names. On resume, options that are not given come from
// the folder's recipe, and given options must not change the result. Throws an InputError if the folder is in use, or
// if it is, contains or is inside a path that the run reads.
void settle_folder(OptionValues& values, RunSetup& setup);

// Complete setup for pretrain. `settle`: see RunSetup.
RunSetup set_up_run(OptionValues& values, const std::function<void(OptionValues&)>& settle);

// InputError for options of the command line that have no effect in this call: by only_with() of the table, by its
// policies and methods, by its task. --fit tries forms and policies later, in which they may have none.
void refuse_idle_options(const OptionValues& values);

// The steps of a setup: begin_setup opens folder and options and reads no data; open_data opens the data; finish_setup
// makes the recipe text and needs spec and factory.
RunSetup begin_setup(OptionValues& values);
// For a plan: opens the files of texts of --data and --dev, if there are any, as far as their first rows.
void check_data(const OptionValues& values, const RunSetup& setup);
// `tokenizer_folder`: used if --tokenizer is not given. `labels` empty: taken from the data.
void open_data(const OptionValues& values, RunSetup& setup, const std::string& tokenizer_folder,
               const std::vector<std::string>& labels);
// Opens the machine and makes the factory; needs spec. With --dry-run the machine only plans: a GPU may be missing, and
// every --dtype is possible.
void open_computer(const OptionValues& values, RunSetup& setup);
void finish_setup(const OptionValues& values, RunSetup& setup);

// Setup for --dry-run: the model of the options. Vocabulary and labels are those of the preset, or the vocabulary is
// that of --tokenizer if it is given.
RunSetup setup_without_data(OptionValues& values, const std::function<void(OptionValues&)>& settle);

// Options that the report header shows: all given options, and those that always matter.
report::Facts settings_of(const OptionValues& values);

}  // namespace comera::tools
