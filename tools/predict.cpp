#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "lib/core/error.h"
#include "lib/core/log.h"
#include "lib/data/byte_stream.h"
#include "lib/report/json.h"
#include "lib/train/evaluate.h"
#include "tools/generation.h"
#include "tools/sentences.h"
#include "tools/stored_model.h"
#include "tools/verbs.h"

namespace comera::tools {
namespace {

// A line of stdin: one text, or two with a tab between them.
std::vector<std::string> texts_of(const std::string& line, std::int64_t number) {
  const std::size_t tab = line.find('\t');
  if (tab == std::string::npos) return {line};
  if (line.find('\t', tab + 1) != std::string::npos)
    fail_input("[predict] stdin:{}: has more than two columns; a line is one text, or two with a tab between", number);
  return {line.substr(0, tab), line.substr(tab + 1)};
}

using Rows = std::vector<std::vector<std::string>>;

// Up to `most` lines with as many columns as the first of all; false at the end of stdin.
bool read_rows(Rows& rows, std::size_t most, std::size_t& columns, std::int64_t& number) {
  rows.clear();
  for (std::string line; rows.size() < most && std::getline(std::cin, line);) {
    if (line.ends_with('\r')) line.pop_back();
    data::require_utf8(line, "stdin", ++number);
    rows.push_back(texts_of(line, number));
    if (columns == 0) columns = rows.back().size();
    if (rows.back().size() != columns)
      fail_input("[predict] stdin:{}: has {}, the lines before have {}; give every line as many", number,
                 rows.back().size() == 1 ? "one text" : "two texts", columns == 1 ? "one" : "two");
  }
  if (std::ferror(stdin)) fail_input("[predict] stdin cannot be read: {}; give a file or a pipe", std::strerror(errno));
  return !rows.empty();
}

std::vector<train::Prediction> predict(StoredModel& stored, const OptionValues& values, const Rows& rows) {
  data::DataSpec spec;
  spec.text.assign(rows.front().size(), "text");
  spec.max_length = values.integer("seq");
  const std::vector<std::int32_t> unknown(rows.size(), -1);
  const auto data = data::Dataset::from_rows(spec, stored.tokenizer, rows, unknown, models::common(stored.spec).labels);
  std::vector<train::Prediction> predictions;
  train::evaluate(*stored.engine, data, {.batch = values.integer("batch")}, [&](const train::Prediction& one) { predictions.push_back(one); });
  return predictions;
}

}  // namespace

OptionTable predict_table() {
  OptionTable table("predict",
                    "label or embed the lines of stdin (one text each, or two with a tab between), or go on writing where they end (decoders)");
  table.positional({.name = "MODEL", .help = "a run folder or a model folder"}).add(line_options()).add(machine_options()).add(precision_options());
  table.add(generation_options())
      .add({{.name = "npy",
             .type = OptionType::path,
             .group = "Output",
             .help = "write the embeddings of the lines as a NumPy array",
             .metavar = "FILE",
             .in_config = false},
            json_option()});
  table.add(common_options());
  table.example("echo 'Once upon a time' | comera predict stories --max-tokens 100 --temperature 0.8 --top-p 0.9");
  return table.example("printf 'A man sleeps.\\tSomebody rests.\\n' | comera predict run");
}

int run_predict(const OptionValues& given) {
  OptionValues values = given;
  StoredModel stored = open_stored_model(values, values.positionals()[0]);
  const bool decoder = std::holds_alternative<models::DecoderSpec>(stored.spec);
  if (!decoder && models::common(stored.spec).task == data::Task::embed) return embed_lines(values, stored);
  if (values.has("npy"))
    fail_input("[predict] --npy: {} is a {}; only embeddings go into such a file", stored.folder, decoder ? "decoder" : "classifier");
  if (decoder) return generate_lines(values, stored);
  if (models::common(stored.spec).task == data::Task::mlm)
    fail_input("[predict] {}: is a masked language model and predicts no labels", stored.folder);
  report::Json json = report::document("predict");
  json["predictions"] = report::Json::array();
  std::size_t columns = 0;
  std::int64_t number = 0;
  for (Rows rows; read_rows(rows, static_cast<std::size_t>(values.integer("batch")), columns, number);) {
    std::string out;
    for (const train::Prediction& prediction : predict(stored, values, rows)) {
      const std::string& label = models::common(stored.spec).labels[static_cast<std::size_t>(prediction.predicted)];
      if (values.flag("json"))
        json["predictions"].push_back({{"label", label}, {"probability", prediction.probability}});
      else
        out += fmt::format("{}\t{:.6f}\n", printable(label), prediction.probability);
    }
    print_out(out);
  }
  if (values.flag("json")) print_out(report::dump(json) + "\n");
  return 0;
}

}  // namespace comera::tools
