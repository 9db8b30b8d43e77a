#include "tools/calibration.h"

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/io/file_kind.h"
#include "lib/io/gguf/gguf.h"
#include "lib/train/train_options.h"
#include "tools/stored_model.h"

namespace comera::tools {

std::vector<Option> calibration_options() {
  const char* group = "Calibration";
  return {{.name = "calibrate",
           .type = OptionType::list,
           .group = group,
           .help = "text, one sequence of at least four tokens per line or row; layers are fitted to their outputs on "
                   "this text, not only to their weights",
           .metavar = "FILE",
           .synonyms = {"data", "dataset", "calibration-data"},
           .files = FileUse::read},
          {.name = "calibrate-tokens",
           .type = OptionType::integer,
           .group = group,
           .help = "limit of tokens to read; a quarter of the sequences is held out, half of it to choose forms, half "
                   "to measure the cost",
           .minimum = 64,
           .default_words = "until 10 per input of the widest layer are fitted, at least 15360"},
          {.name = "calibrate-length",
           .type = OptionType::integer,
           .default_text = "128",
           .group = group,
           .help = "longest sequence",
           .minimum = 8},
          {.name = "text",
           .type = OptionType::list,
           .group = group,
           .help = "columns of a table that --calibrate names",
           .metavar = "NAME,..",
           .default_words = "text"},
          train::chat_option(group),
          train::data_format_option(group),
          {.name = "tokenizer",
           .type = OptionType::path,
           .group = group,
           .help = "a tokenizer.json, vocab.txt, .model, GGUF file or a folder with one",
           .default_words = "the model's"}};
}

std::unique_ptr<compress::InputMoments> open_calibration(const OptionValues& values, const plan::Machine& machine,
                                                         const std::string& model, const std::string& scratch,
                                                         const compress::MomentsInfo* certified) {
  if (values.list("calibrate").empty()) return nullptr;
  if (!is_folder(model) && !io::is_gguf_file(model))
    fail_input("[{}] {}: is no folder; --calibrate runs the model, which needs its config.json; {}",
               values.table().verb(), model, io::folder_instead_of(model));
  compress::CalibrationSettings settings;
  settings.model = model;
  settings.files = values.list("calibrate");
  if (values.has("tokenizer")) settings.tokenizer = values.text("tokenizer");
  if (values.has("calibrate-tokens"))
    settings.tokens = values.integer("calibrate-tokens");
  else if (certified)
    settings.tokens = certified->all_tokens();
  settings.columns = values.list("text");
  settings.format = data::format_named(values.text("data-format"));
  settings.chat = values.flag("chat");
  settings.length = values.integer("calibrate-length");
  settings.scratch = scratch;
  if (certified)
    settings.clips_tokens = certified->clips_tokens;
  else if (values.table().find("clip-tokens"))
    settings.clips_tokens = values.flag("clip-tokens");
  if (values.table().find("adapter")) settings.adapter = adapter_of(values);
  return compress::calibrate(machine, settings);
}

compress::ComparisonText comparison_text(const OptionValues& values) {
  compress::ComparisonText text;
  text.files = values.list("calibrate");
  text.calibration = !text.files.empty();
  if (values.has("tokenizer")) text.tokenizer = values.text("tokenizer");
  if (values.has("calibrate-tokens")) text.calibration_tokens = values.integer("calibrate-tokens");
  text.chat = values.flag("chat");
  text.length = values.integer("calibrate-length");
  text.columns = values.list("text");
  text.format = data::format_named(values.text("data-format"));
  text.adapter = adapter_of(values);
  return text;
}

}  // namespace comera::tools
