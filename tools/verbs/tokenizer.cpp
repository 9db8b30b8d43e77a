// `comera tokenizer encode` and `comera tokenizer decode`.
#include "lib/data/tokenizer/tokenizer.h"

#include <fmt/core.h>
#include <unistd.h>

#include <optional>

#include "lib/core/error.h"
#include "lib/core/join.h"
#include "lib/core/terminal/stop.h"
#include "lib/core/terminal/task_progress.h"
#include "lib/data/files/line_reader.h"
#include "lib/report/output/json.h"
#include "tools/stored_model.h"
#include "tools/verbs.h"

namespace comera::tools {
namespace {

std::vector<Option> tokenizer_options() {
  return {{.name = "tokenizer",
           .type = OptionType::path,
           .help = "tokenizer.json, vocab.txt, SentencePiece .model, GGUF file, or a folder with one",
           .metavar = "FILE"},
          {.name = "case",
           .type = OptionType::choice,
           .default_text = "automatic",
           .help = "letter case of the tokens in a vocab.txt",
           .choices = {"automatic", "cased", "uncased"}},
          {.name = "special",
           .type = OptionType::flag,
           .help = "include the special pieces around a text ([CLS] and [SEP], or <s> and </s>)"}};
}

OptionTable lines_table(const char* verb, const char* summary) {
  OptionTable table(verb, summary);
  table.add(tokenizer_options()).add({json_option()}).add(common_options());
  return table;
}

data::Ids parse_ids(const std::string& line, std::int64_t number) {
  data::Ids ids;
  std::size_t at = 0;
  while ((at = line.find_first_not_of(" \t\r", at)) != std::string::npos) {
    const std::size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
    const std::string word = line.substr(at, end - at);
    const auto id = parse_integer(word);
    if (!id || *id < 0 || *id > INT32_MAX)
      fail_input("[tokenizer decode] stdin:{}: '{}' is not an id; ids are whole numbers separated by spaces", number,
                 word);
    ids.push_back(static_cast<std::int32_t>(*id));
    at = end;
  }
  return ids;
}

// Reads stdin line by line and prints the answers whenever the input pauses, so that a pipe can interact with it. With
// --json it prints one object at the end. `answer` returns JSON, `text` formats it for plain output.
template <class Answer, class Text>
int answer_lines(const OptionValues& values, Answer&& answer, Text&& text) {
  report::Json json = report::document(values.table().verb());
  json["lines"] = report::Json::array();
  std::string out;
  data::LineReader lines(data::ByteStream::standard_input(), "stdin");
  std::optional<TaskProgress> task;  // on a terminal the answers show the progress
  if (::isatty(STDIN_FILENO) != 1) task.emplace("answering lines");
  for (std::string_view line; lines.next(line);) {
    check_stop();
    if (task) task->advance();
    auto result = answer(std::string(line), lines.line());
    if (values.flag("json")) {
      json["lines"].push_back(std::move(result));
      continue;
    }
    out += text(result) + "\n";
    if (lines.ready() && out.size() < (1 << 16)) continue;
    print_out(out);
    out.clear();
  }
  print_out(values.flag("json") ? report::dump(json, -1) + "\n" : out);
  return 0;
}

}  // namespace

OptionTable tokenizer_encode_table() {
  OptionTable table = lines_table("tokenizer encode", "convert lines of stdin to ids, separated by spaces");
  table.synonyms({"tokenize", "tokenise"});
  table.example("comera tokenizer encode --tokenizer vocab.txt < text.txt > ids.txt");
  return table;
}

int run_tokenizer_encode(const OptionValues& values) {
  const auto tokenizer = open_tokenizer(values, "");
  const data::Specials& special = tokenizer->specials();
  const bool around = values.flag("special");
  const auto encode = [&](const std::string& line, std::int64_t) {
    data::Ids ids;
    if (around && special.cls >= 0) ids.push_back(special.cls);
    tokenizer->encode(line, ids);
    if (around && special.sep >= 0) ids.push_back(special.sep);
    return ids;
  };
  return answer_lines(values, encode, [](const data::Ids& ids) { return join(ids, " "); });
}

OptionTable tokenizer_decode_table() {
  OptionTable table = lines_table("tokenizer decode", "convert lines of ids to text");
  table.synonyms({"detokenize", "detokenise"});
  table.example("comera tokenizer decode --tokenizer vocab.txt < ids.txt");
  return table;
}

int run_tokenizer_decode(const OptionValues& values) {
  const auto tokenizer = open_tokenizer(values, "");
  const bool keep = values.flag("special");
  const auto decode = [&](const std::string& line, std::int64_t number) {
    return tokenizer->decode(parse_ids(line, number), keep);
  };
  return answer_lines(values, decode, [](const std::string& text) { return text; });
}

}  // namespace comera::tools
