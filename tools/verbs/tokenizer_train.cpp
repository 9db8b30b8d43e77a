// `comera tokenizer train`.
#include "lib/data/tokenizer/tokenizer_train.h"

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/terminal/log.h"
#include "lib/data/tokenizer/pipeline/pipeline.h"
#include "lib/data/tokenizer/training/tokenizer_files.h"
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
  const std::string& kind = values.text("kind");
  data::TrainTokenizerOptions options;
  options.vocab_size = values.integer("vocab-size");
  options.letter_case = values.flag("cased") ? data::LetterCase::cased : data::LetterCase::uncased;
  options.min_count = values.integer("min-count");
  options.alphabet = values.integer("alphabet");
  options.model = kind == "sentencepiece-bpe" ? "bpe" : "unigram";
  options.frame = values.text("frame") == "decoder" ? data::TextFrame::decoder : data::TextFrame::encoder;
  if (kind == "wordpiece" && options.frame == data::TextFrame::decoder)
    fail_input(
        "[tokenizer train] --kind wordpiece has the pieces of BERT, so --frame decoder does not fit; use --kind "
        "bpe or unigram");
  return options;
}

struct Learned {
  std::shared_ptr<const data::Tokenizer> tokenizer;
  std::string beside = {};  // a tokenizer.json that is written beside it
  std::int64_t texts = 0;
};

Learned learn_sentencepiece(const OptionValues& values, const data::TrainTokenizerOptions& options) {
  const std::vector<std::string> texts = data::sample_texts(sample_spec(values));
  log_info("learning from {} texts", texts.size());
  const std::string model = data::train_sentencepiece(texts, options);
  if (values.text("kind") != "unigram")
    return {data::parse_sentencepiece(model, "the new model"), "", std::ssize(texts)};
  data::PipelineFiles files{.tokenizer = data::unigram_tokenizer_json(model, options.frame),
                            .config = data::trained_tokenizer_config(options.frame)};
  return {std::make_shared<data::Pipeline>(std::move(files), "the new tokenizer"), "", std::ssize(texts)};
}

Learned learn(const OptionValues& values) {
  const data::TrainTokenizerOptions options = train_options(values);
  const data::SampleSpec sample = sample_spec(values);
  Learned learned;
  const data::TextSource texts = [&](const data::TakeText& take) {
    learned.texts = data::for_each_sampled_text(sample, take);
    log_info("learning from {} texts", learned.texts);
  };
  if (values.text("kind") == "wordpiece") {
    const std::string vocab = data::train_wordpiece(texts, options);
    learned.tokenizer = data::parse_wordpiece(vocab, "the new vocabulary", options.letter_case);
    learned.beside = data::wordpiece_tokenizer_json(vocab, options.letter_case);
    return learned;
  }
  if (values.text("kind") != "bpe") return learn_sentencepiece(values, options);
  data::PipelineFiles files{.tokenizer = data::train_bpe(texts, options),
                            .config = data::trained_tokenizer_config(options.frame)};
  learned.tokenizer = std::make_shared<data::Pipeline>(std::move(files), "the new tokenizer");
  return learned;
}

std::string output_folder(const OptionValues& values) {
  if (!values.has("output")) fail_input("[tokenizer train] --output is missing: name the folder to write");
  const std::string& folder = values.text("output");
  if (path_exists(folder) && !(is_folder(folder) && is_empty_folder(folder)) && !values.flag("force"))
    fail_input("[tokenizer train] {}: exists and is not an empty folder; use another name, or --force to write into it",
               folder);
  return folder;
}

std::vector<Option> kind_options() {
  return {{.name = "kind",
           .type = OptionType::choice,
           .default_text = "wordpiece",
           .help = "tokenizer.json of BERT's WordPiece (with vocab.txt), byte-level BPE or Unigram; or a SentencePiece "
                   "tokenizer.model",
           .choices = {"wordpiece", "bpe", "unigram", "sentencepiece-unigram", "sentencepiece-bpe"}},
          {.name = "frame",
           .type = OptionType::choice,
           .default_text = "encoder",
           .help = "pieces around a text: [CLS] and [SEP], with [MASK]; decoder: <s> before it, </s> ends it",
           .choices = {"encoder", "decoder"}}};
}

}  // namespace

OptionTable tokenizer_train_table() {
  OptionTable table("tokenizer train", "learn a tokenizer from a sample of texts");
  table
      .add({{.name = "data",
             .type = OptionType::list,
             .help = "text, CSV, TSV or JSONL files, plain, .gz or .zst; globs are allowed",
             .metavar = "FILE,...",
             .files = FileUse::read},
            {.name = "text",
             .type = OptionType::list,
             .help = "columns of tables",
             .metavar = "NAME,...",
             .default_words = "text"},
            train::data_format_option("General")})
      .add(kind_options())
      .add({{.name = "vocab-size",
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
            {.name = "seed",
             .type = OptionType::integer,
             .default_text = "0",
             .help = "seed of the sample",
             .minimum = 0},
            {.name = "cased", .type = OptionType::flag, .help = "keep upper case and accents (bpe always does)"},
            {.name = "min-count",
             .type = OptionType::integer,
             .default_text = "2",
             .help = "lowest count of a pair to be merged (wordpiece, bpe)",
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
            {.name = "force",
             .type = OptionType::flag,
             .help = "write into a folder that is not empty",
             .in_config = false},
            json_option()});
  table.add(common_options()).synonyms({"train-tokenizer", "vocab", "vocabulary"});
  table.common({"data", "text", "kind", "vocab-size", "sample", "cased", "frame", "output", "force", "json"});
  return table.example("comera tokenizer train --data 'corpus/*.txt.gz' --vocab-size 8000 -o tokenizer");
}

int run_tokenizer_train(const OptionValues& values) {
  const std::string folder = output_folder(values);
  const Learned learned = learn(values);
  const auto& tokenizer = learned.tokenizer;
  const Folder made = Folder::made(folder);
  tokenizer->save(made);
  if (!learned.beside.empty()) write_file_atomic(made, "tokenizer.json", learned.beside);
  report::Json json = report::document("tokenizer train");
  json["output"] = folder;
  json["texts"] = learned.texts;
  json["vocab_size"] = tokenizer->vocab_size();
  json["hash"] = tokenizer->hash();
  write_file_atomic(join_path(folder, "report.json"), report::dump(json) + "\n");
  if (values.flag("json"))
    print_out(report::dump(json) + "\n");
  else
    print_out(fmt::format("{}: {} pieces\n", printable(folder), tokenizer->vocab_size()));
  return 0;
}

}  // namespace comera::tools
