// Input texts and printed answers of predict: one answer for each line of standard input or each row of --data.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/core/options/options.h"
#include "lib/core/terminal/task_progress.h"
#include "lib/data/files/text_reader.h"
#include "lib/report/output/json.h"

namespace comera::tools {

struct InputText {
  std::vector<std::string> texts;  // one text, or the two texts of a pair
  bool empty() const { return data::is_blank(texts[0]) && data::is_blank(texts.back()); }
};

class InputTexts {
 public:
  // `pairs`: a tab in a line of standard input separates two texts; otherwise it is an ordinary character.
  InputTexts(const OptionValues& values, bool pairs);

  std::string place() const;  // file and line of the last text, for messages

  // Reads at most `most` texts, and fewer if the input pauses, so that available texts are answered before the next
  // wait. Returns false at the end of the input. Throws an InputError that names the line.
  bool next(std::vector<InputText>& texts, std::size_t most);

 private:
  bool read(InputText& text);
  bool read_line(InputText& text);
  std::int64_t answered() const;
  bool pauses() { return lines_ && !lines_->ready(); }

  std::optional<data::LineReader> lines_;  // of standard input
  std::vector<std::string> files_;
  std::size_t file_ = 0;  // index of the next file to open
  data::TextRequest request_;
  std::optional<data::TextReader> reader_;
  bool pairs_;
  std::size_t columns_ = 0;
  std::int64_t before_ = 0, count_ = 0;  // bytes of the files before the current one; texts returned so far
  bool counts_bytes_ = false;            // the sizes of all files are known
  std::optional<TaskProgress> task_;     // none if standard input is a terminal: no progress is shown then
};

// Prints plain lines, or one object per line with --jsonl, at each flush(). With --json it prints one object at the
// end.
class Answers {
 public:
  // `list`: key of the answers in the object of --json. `item`: key of an answer in an object of --jsonl, if the answer
  // is not an object itself.
  Answers(const OptionValues& values, std::string list, std::string item);

  bool plain() const { return form_ == Form::plain; }
  void line(std::string_view text);  // plain
  void value(report::Json answer);   // --json, --jsonl
  void flush();
  void finish(const report::Json& beside = report::Json::object());  // with --json, `beside` is merged into the object

 private:
  enum class Form : std::uint8_t { plain, json, jsonl };
  Form form_;
  std::string list_, item_, out_;
  std::int64_t count_ = 0;
};

std::vector<Option> answer_options();  // --data, --json, --jsonl

}  // namespace comera::tools
