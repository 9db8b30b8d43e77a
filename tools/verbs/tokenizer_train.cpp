// `comera tokenizer train`.
#include "lib/data/tokenizer/tokenizer_train.h"

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/terminal/log.h"
#include "lib/report/output/json.h"
#include "lib/train/train_options.h"
#include "tools/verbs.h"

namespace comera::tools {
namespace {

data::SampleSpec sample_spec(const OptionValues& values) {
  if (!values.has("data")) fail_input("[tokenizer train] --data is missing: name the files to learn from");
  return {values.list("data"), data::format_named(values.text("data-format")), values.list("text"),
          values.integer("sample"), static_cast<std::uint64_t>(values.integer("seed"))};
}

data::TrainTokenizerOptions train_options(const OptionValues& values) {
  data::TrainTokenizerOptions options;
  options.vocab_size = values.integer("vocab-size");
  options.letter_case = values.flag("cased") ? data::LetterCase::cased : data::LetterCase::uncased;
  options.min_count = values.integer("min-count");
  options.alphabet = values.integer("alphabet");
  if (values.text("kind") != "wordpiece") options.model = values.text("kind");
  return options;
}

std::shared_ptr<const data::Tokenizer> learn(const OptionValues& values, const std::vector<std::string>& texts) {
  const data::TrainTokenizerOptions options = train_options(values);
  if (values.text("kind") == "wordpiece")
    return data::parse_wordpiece(data::train_wordpiece(texts, options), "the new vocabulary", options.letter_case);
  return data::parse_sentencepiece(data::train_sentencepiece(texts, options), "the new model");
}

std::string output_folder(const OptionValues& values) {
  if (!values.has("output")) fail_input("[tokenizer train] --output is missing: name the folder to write");
  const std::string& folder = values.text("output");
  if (path_exists(folder) && !(is_folder(folder) && is_empty_folder(folder)) && !values.flag("force"))
    fail_input("[tokenizer train] {}: exists and is not an empty folder; use another name, or --force to write into it",
               folder);
  return folder;
}

}  // namespace

OptionTable tokenizer_train_table() {
  OptionTable table("tokenizer train", "learn a tokenizer from a sample of texts");
  table.add(
      {{.name = "data",
        .type = OptionType::list,
        .help = "text, CSV, TSV or JSONL files, plain, .gz or .zst; globs are allowed",
        .metavar = "FILE,...",
        .files = FileUse::read},
       {.name = "text",
        .type = OptionType::list,
        .help = "columns of tables",
        .metavar = "NAME,...",
        .default_words = "text"},
       train::data_format_option("General"),
       {.name = "kind",
        .type = OptionType::choice,
        .default_text = "wordpiece",
        .help = "wordpiece (vocab.txt), or a SentencePiece model",
        .choices = {"wordpiece", "unigram", "bpe"}},
       {.name = "vocab-size",
        .type = OptionType::integer,
        .default_text = "30522",
        .help = "limit of pieces, special pieces included",
        .minimum = 16,
        .maximum = static_cast<double>(data::most_pieces)},
       {.name = "sample",
        .type = OptionType::integer,
        .default_text = "1000000",
        .help = "limit of sampled texts, each equally likely; 0: all",
        .minimum = 0},
       {.name = "seed", .type = OptionType::integer, .default_text = "0", .help = "seed of the sample", .minimum = 0},
       {.name = "cased", .type = OptionType::flag, .help = "keep upper case and accents (wordpiece)"},
       {.name = "min-count",
        .type = OptionType::integer,
        .default_text = "2",
        .help = "lowest count of a pair to be merged (wordpiece)",
        .minimum = 1},
       {.name = "alphabet",
        .type = OptionType::integer,
        .default_text = "1000",
        .help = "number of characters with pieces of their own (wordpiece)",
        .minimum = 1},
       {.name = "output",
        .type = OptionType::path,
        .help = "folder to write",
        .metavar = "FOLDER",
        .short_name = 'o',
        .in_config = false,
        .files = FileUse::written},
       {.name = "force", .type = OptionType::flag, .help = "write into a folder that is not empty", .in_config = false},
       json_option()});
  table.add(common_options()).synonyms({"train-tokenizer", "vocab", "vocabulary"});
  table.common({"data", "text", "kind", "vocab-size", "sample", "cased", "min-count", "output", "force", "json"});
  return table.example("comera tokenizer train --data 'corpus/*.txt.gz' --vocab-size 8000 -o tokenizer");
}

int run_tokenizer_train(const OptionValues& values) {
  const std::string folder = output_folder(values);
  const std::vector<std::string> texts = data::sample_texts(sample_spec(values));
  if (texts.empty()) fail_input("[tokenizer train] {}: holds no text", values.list("data").front());
  log_info("learning from {} texts", texts.size());
  const auto tokenizer = learn(values, texts);
  tokenizer->save(Folder::made(folder));
  report::Json json = report::document("tokenizer train");
  json["output"] = folder;
  json["texts"] = texts.size();
  json["vocab_size"] = tokenizer->vocab_size();
  json["hash"] = tokenizer->hash();
  write_file_atomic(join_path(folder, "report.json"), report::dump(json) + "\n");
  if (values.flag("json"))
    print_out(report::dump(json) + "\n");
  else
    print_out(fmt::format("{}: {} pieces\n", folder, tokenizer->vocab_size()));
  return 0;
}

}  // namespace comera::tools
