#include "tools/generation.h"

#include <algorithm>
#include <iostream>

#include "lib/core/error.h"
#include "lib/core/log.h"
#include "lib/data/byte_stream.h"
#include "lib/report/json.h"
#include "lib/train/generate.h"
#include "tools/verbs.h"

namespace comera::tools {
namespace {

train::GenerateOptions options_of(const OptionValues& values, const models::DecoderSpec& spec) {
  train::GenerateOptions options;
  options.temperature = values.real("temperature");
  options.top_p = values.real("top-p");
  options.seed = static_cast<std::uint64_t>(values.integer("seed"));
  options.max_tokens = values.integer("max-tokens");
  options.positions = spec.positions;
  options.ends = spec.end;
  return options;
}

// The pieces before the prompt are the checkpoint's, else the tokenizer's.
data::Ids prompt_of(const std::string& text, const data::Tokenizer& tokenizer, const models::DecoderSpec& spec) {
  data::Ids ids;
  const std::int64_t begin = spec.begin >= 0 ? spec.begin : tokenizer.specials().begin;
  if (begin >= 0) ids.push_back(static_cast<std::int32_t>(begin));
  tokenizer.encode(text, ids);
  if (ids.empty()) fail_input("[predict] an empty line, and the tokenizer has no begin piece; write a word to begin with");
  return ids;
}

std::string text_of(const data::Ids& prompt, const train::Generated& generated, const data::Tokenizer& tokenizer) {
  data::Ids all = prompt;
  all.insert(all.end(), generated.ids.begin(), generated.ids.end());
  return tokenizer.decode(all);
}

}  // namespace

std::vector<Option> generation_options() {
  const char* g = "Generation";
  return {
      {.name = "max-tokens", .type = OptionType::integer, .default_text = "128", .group = g, .help = "longest continuation in tokens", .minimum = 1},
      {.name = "temperature",
       .type = OptionType::real,
       .default_text = "0",
       .group = g,
       .help = "draw the next token from the softmax of logits / temperature; 0: take the most probable",
       .minimum = 0},
      {.name = "top-p",
       .type = OptionType::real,
       .default_text = "1",
       .group = g,
       .help = "draw among the fewest tokens that have this probability together",
       .minimum = 0,
       .maximum = 1},
      {.name = "seed", .type = OptionType::integer, .default_text = "0", .group = g, .help = "of the draws", .minimum = 0}};
}

int generate_lines(const OptionValues& values, StoredModel& stored) {
  const auto& spec = std::get<models::DecoderSpec>(stored.spec);
  const train::GenerateOptions options = options_of(values, spec);
  report::Json json = report::document("predict");
  json["texts"] = report::Json::array();
  std::uint64_t number = 0;
  double seconds = 0;
  std::int64_t tokens = 0, cut = 0;
  for (std::string line; std::getline(std::cin, line); ++number) {
    if (line.ends_with('\r')) line.pop_back();
    data::require_utf8(line, "stdin", static_cast<std::int64_t>(number) + 1);
    const data::Ids prompt = prompt_of(line, *stored.tokenizer, spec);
    const train::Generated generated = train::generate(*stored.engine, prompt, number, options);
    const std::string text = text_of(prompt, generated, *stored.tokenizer);
    tokens += static_cast<std::int64_t>(generated.ids.size());
    cut += !generated.ended && static_cast<std::int64_t>(generated.ids.size()) < options.max_tokens;
    seconds += generated.prompt_seconds + generated.seconds;
    if (!values.flag("json")) print_out(text + "\n");
    json["texts"].push_back({{"prompt", line}, {"text", text}, {"ids", generated.ids}, {"ended", generated.ended}});
  }
  json["tokens"] = tokens;
  json["seconds"] = seconds;
  if (values.flag("json")) print_out(report::dump(json) + "\n");
  if (cut > 0)
    log_warning("[predict] {} of {} texts stopped before --max-tokens {}: prompt and continuation fill the model's {} positions", cut, number,
                options.max_tokens, options.positions);
  log_info("{} tokens in {:.3g} s, {:.4g} tokens/s", tokens, seconds, static_cast<double>(tokens) / std::max(seconds, 1e-9));
  return 0;
}

}  // namespace comera::tools
