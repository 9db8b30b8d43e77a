// Input texts and printed answers of predict: one answer for each line of standard input, or for each row of --data.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/core/options.h"
#include "lib/core/task_progress.h"
#include "lib/data/text_reader.h"
#include "lib/report/json.h"

namespace comera::tools {

struct InputText {
  std::vector<std::string> texts;  // one, or the two of a pair
  bool empty() const { return texts[0].empty() && texts.back().empty(); }
};

class InputTexts {
 public:
  explicit InputTexts(const OptionValues& values);

  // Up to `most`, fewer where the input pauses: what has come is answered before more is waited for. False at the end.
  // InputError naming the line.
  bool next(std::vector<InputText>& texts, std::size_t most);

 private:
  bool read(InputText& text);
  bool read_line(InputText& text);
  std::int64_t answered() const;
  bool pauses() { return lines_ && !lines_->ready(); }

  std::optional<data::LineReader> lines_;  // of standard input
  std::vector<std::string> files_;
  std::size_t file_ = 0;  // opened next
  data::TextRequest request_;
  std::optional<data::TextReader> reader_;
  std::size_t columns_ = 0;
  std::int64_t before_ = 0, count_ = 0;  // bytes of the files before the one that is read; texts that were handed out
  bool counts_bytes_ = false;            // those of all files are known
  std::optional<TaskProgress> task_;     // none where a person types: nothing is to be shown then
};

// Plain lines, with --jsonl an object per line, both as soon as flush() is called; with --json one object at the end.
class Answers {
 public:
  // `list`: the name of the answers in the object of --json; `item`: in one of --jsonl, where an answer is no object by
  // itself.
  Answers(const OptionValues& values, std::string list, std::string item);

  bool plain() const { return form_ == Form::plain; }
  void line(std::string_view text);  // plain
  void value(report::Json answer);   // --json, --jsonl
  void flush();
  void finish(const report::Json& beside = report::Json::object());  // `beside` goes into the object of --json

 private:
  enum class Form : std::uint8_t { plain, json, jsonl };
  Form form_;
  std::string list_, item_, out_;
  std::int64_t count_ = 0;
};

std::vector<Option> answer_options();  // --data, --json, --jsonl

}  // namespace comera::tools
