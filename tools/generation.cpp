#include "tools/generation.h"

#include <algorithm>
#include <ctime>

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"
#include "lib/data/chat/chat_template.h"
#include "lib/engine/generate.h"
#include "lib/report/output/json.h"
#include "models/decoder/decoder_config.h"
#include "tools/input_texts.h"
#include "tools/verbs.h"

namespace comera::tools {
namespace {

engine::GenerateOptions options_of(const OptionValues& values, const StoredModel& stored) {
  const auto& spec = std::get<models::DecoderSpec>(stored.spec);
  engine::GenerateOptions options;
  options.temperature = values.real("temperature");
  options.top_p = values.real("top-p");
  options.seed = static_cast<std::uint64_t>(values.integer("seed"));
  options.max_tokens = values.integer("max-tokens");
  options.positions = spec.positions;
  options.ends = models::generation_ends(stored.folder, spec);
  return options;
}

// Conversations as prompts.
struct Chat {
  std::shared_ptr<const data::ChatTemplate> source;  // null: lines are texts
  std::string system;
};

// A text is a user's message, or a list of messages as JSON, or an object with that list in "messages".
std::string chat_prompt(const std::string& text, const Chat& chat, const std::string& place) {
  report::Json messages = report::Json::array();
  const std::size_t first = text.find_first_not_of(" \t");
  const std::string_view rest = std::string_view(text).substr(std::min(first, text.size()));
  if (rest.starts_with("[{") || rest.starts_with("{\"messages\"")) {
    messages = io::parse_json(text, place);
    if (messages.is_object()) messages = report::Json(messages.at("messages"));
    data::check_messages(messages, place);
  } else {
    messages.push_back({{"role", "user"}, {"content", text}});
  }
  const bool has_system = messages[0].value("role", "") == "system";
  if (!chat.system.empty() && !has_system) {
    report::Json all = report::Json::array();
    all.push_back({{"role", "system"}, {"content", chat.system}});
    for (const report::Json& message : messages) all.push_back(message);
    messages = std::move(all);
  }
  return chat.source->prompt(messages, std::time(nullptr));
}

data::Ids chat_ids(const std::string& prompt, const data::Tokenizer& tokenizer) {
  data::Ids ids;
  tokenizer.encode(prompt, ids);
  if (ids.empty()) fail_input("[predict] the chat template writes nothing for this conversation");
  return ids;
}

data::Ids prompt_of(const std::string& text, const data::Tokenizer& tokenizer, const models::DecoderSpec& spec) {
  data::Ids ids;
  if (const std::int32_t begin = begin_piece(tokenizer, spec); begin >= 0) ids.push_back(begin);
  tokenizer.encode(text, ids);
  if (ids.empty())
    fail_input("[predict] an empty line, and the tokenizer has no begin piece; write a word to begin with");
  return ids;
}

// Prints a text while it is generated: each token adds its new characters.
class LiveText {
 public:
  // `before`: tokens that are shown, too.
  LiveText(const data::Ids& before, const data::Tokenizer& tokenizer, bool prints)
      : ids_(before), tokenizer_(tokenizer), prints_(prints) {}

  // A model may have more rows than the tokenizer pieces. As in transformers, such an id has no text.
  void add(std::int32_t id) {
    if (!tokenizer_.has(id)) return;
    ids_.push_back(id);
    if (prints_) show();
  }
  std::string finish() {
    const std::string text = tokenizer_.decode(ids_);
    if (prints_) print_out(text.substr(std::min(shown_.size(), text.size())) + "\n");
    return text;
  }

 private:
  // Incomplete UTF-8 characters wait for the next token.
  void show() {
    const std::string text = tokenizer_.decode(ids_);
    if (text.ends_with("\xEF\xBF\xBD") || !text.starts_with(shown_)) return;
    print_out(std::string_view(text).substr(shown_.size()));
    shown_ = text;
  }

  data::Ids ids_;
  const data::Tokenizer& tokenizer_;
  bool prints_;
  std::string shown_;
};

// Totals over all texts. The pass over a prompt gives the first token; each further token is a pass of its own.
struct Totals {
  std::int64_t texts = 0, cut = 0, prompt_tokens = 0, tokens = 0, passes = 0;
  double prompt_seconds = 0, seconds = 0;
};

double rate(std::int64_t tokens, double seconds) { return static_cast<double>(tokens) / std::max(seconds, 1e-9); }

void go_on(const std::string& line, const Chat& chat, const std::string& place, StoredModel& stored,
           const engine::GenerateOptions& options, Answers& answers, Totals& totals) {
  const auto number = static_cast<std::uint64_t>(totals.texts++);
  if (data::is_blank(line)) {
    if (answers.plain())
      answers.line("");
    else
      answers.value({{"prompt", line}, {"text", ""}, {"ids", report::Json::array()}, {"ended", false}});
    return answers.flush();
  }
  const std::string shown = chat.source ? chat_prompt(line, chat, place) : line;
  const data::Ids prompt = chat.source ? chat_ids(shown, *stored.tokenizer)
                                       : prompt_of(line, *stored.tokenizer, std::get<models::DecoderSpec>(stored.spec));
  LiveText live(chat.source ? data::Ids() : prompt, *stored.tokenizer, answers.plain());
  const engine::Generated generated =
      engine::generate(*stored.engine, prompt, number, options, [&](std::int32_t id) { live.add(id); });
  const std::string text = live.finish();
  totals.prompt_tokens += std::ssize(prompt);
  totals.tokens += std::ssize(generated.ids);
  totals.passes += std::max<std::int64_t>(std::ssize(generated.ids) + generated.ended - 1, 0);
  totals.cut += !generated.ended && std::ssize(generated.ids) < options.max_tokens;
  totals.prompt_seconds += generated.prompt_seconds;
  totals.seconds += generated.seconds;
  if (!answers.plain())
    answers.value({{"prompt", shown}, {"text", text}, {"ids", generated.ids}, {"ended", generated.ended}});
  answers.flush();
}

}  // namespace

std::int32_t begin_piece(const data::Tokenizer& tokenizer, const models::DecoderSpec& spec) {
  const data::Specials& specials = tokenizer.specials();
  return spec.begin >= 0 && !specials.framed ? static_cast<std::int32_t>(spec.begin) : specials.begin;
}

std::vector<Option> generation_options() {
  const char* g = "Generation";
  return {{.name = "max-tokens",
           .type = OptionType::integer,
           .default_text = "128",
           .group = g,
           .help = "longest continuation in tokens",
           .minimum = 1,
           .synonyms = {"max-new-tokens", "max-length", "n-predict", "length"}},
          {.name = "temperature",
           .type = OptionType::real,
           .default_text = "0",
           .group = g,
           .help = "draw the next token from the softmax of logits / temperature; 0: take the most probable",
           .minimum = 0,
           .synonyms = {"temp"}},
          {.name = "top-p",
           .type = OptionType::real,
           .default_text = "1",
           .group = g,
           .help = "draw from the smallest set of tokens with this total probability",
           .minimum = 0,
           .maximum = 1},
          {.name = "seed",
           .type = OptionType::integer,
           .default_text = "0",
           .group = g,
           .help = "seed of the draws",
           .minimum = 0},
          {.name = "system",
           .type = OptionType::string,
           .group = g,
           .help = "with --chat: the system's message of conversations without one",
           .metavar = "TEXT"}};
}

int generate_lines(const OptionValues& values, StoredModel& stored) {
  if (values.real("temperature") <= 0)
    refuse_options(values, {"top-p", "seed"}, "--temperature 0 takes the most probable token; nothing is drawn");
  engine::GenerateOptions options = options_of(values, stored);
  const Chat chat{open_chat(values, *stored.tokenizer), values.has("system") ? values.text("system") : ""};
  if (!chat.source && !chat.system.empty()) fail_input("[predict] --system goes with --chat");
  // A model that chats ends its answers with the end piece of its tokenizer.
  if (const std::int32_t end = stored.tokenizer->specials().end; chat.source && end >= 0) options.ends.push_back(end);
  InputTexts input(values, false);
  Answers answers(values, "texts", "text");
  Totals totals;
  for (std::vector<InputText> texts; input.next(texts, 1);) {
    if (texts[0].texts.size() > 1) texts[0].texts[0] += "\t" + texts[0].texts[1];  // two columns of a table
    go_on(texts[0].texts[0], chat, input.place(), stored, options, answers, totals);
  }
  answers.finish({{"tokens", totals.tokens},
                  {"seconds", totals.prompt_seconds + totals.seconds},
                  {"prompt_tokens_per_second", rate(totals.prompt_tokens, totals.prompt_seconds)},
                  {"tokens_per_second", rate(totals.passes, totals.seconds)}});
  if (totals.cut > 0)
    log_warning(
        "[predict] {} of {} texts stopped before --max-tokens {}: prompt and continuation fill the model's {} "
        "positions",
        totals.cut, totals.texts, options.max_tokens, options.positions);
  log_info("{} tokens in {:.3g} s: prompts {:.4g} tokens/s, continuations {:.4g} tokens/s", totals.tokens,
           totals.prompt_seconds + totals.seconds, rate(totals.prompt_tokens, totals.prompt_seconds),
           rate(totals.passes, totals.seconds));
  return 0;
}

}  // namespace comera::tools
