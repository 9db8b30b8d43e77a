#include "tools/input_texts.h"

#include <unistd.h>

#include <algorithm>

#include "lib/core/error.h"
#include "lib/data/files/files.h"
#include "tools/program.h"

namespace comera::tools {

InputTexts::InputTexts(const OptionValues& values, bool pairs) : pairs_(pairs) {
  if (values.list("data").empty()) {
    if (values.given("text") || values.given("data-format"))
      fail_input("[predict] --{} goes with --data FILE; lines of standard input have no columns",
                 values.given("text") ? "text" : "data-format");
    lines_.emplace(data::ByteStream::standard_input(), "stdin");
    if (::isatty(STDIN_FILENO) != 1) task_.emplace("answering texts");
    return;
  }
  files_ = data::resolve_files(values.list("data"));
  std::int64_t all = 0;
  for (const std::string& file : files_) all += data::text_bytes(file);
  counts_bytes_ =
      std::all_of(files_.begin(), files_.end(), [](const std::string& file) { return data::text_bytes(file) > 0; });
  counts_bytes_ ? task_.emplace("answering texts", all, TaskUnit::bytes) : task_.emplace("answering texts");
  request_.format = data::format_named(values.text("data-format"));
  request_.text = values.list("text");
  request_.conversations = values.table().find("chat") && values.flag("chat");
  request_.named = values.given("text");
}

std::string InputTexts::place() const {
  if (lines_) return fmt::format("[predict] stdin:{}", lines_->line());
  return reader_ ? fmt::format("[predict] {}:{}", reader_->lines().path(), reader_->lines().line()) : "[predict]";
}

bool InputTexts::next(std::vector<InputText>& texts, std::size_t most) {
  texts.clear();
  if (task_) task_->done(answered());
  for (InputText text; texts.size() < most && (texts.empty() || !pauses()) && read(text);)
    texts.push_back(std::move(text));
  count_ += std::ssize(texts);
  return !texts.empty();
}

std::int64_t InputTexts::answered() const {
  if (!counts_bytes_) return count_;
  return before_ + (reader_ ? static_cast<std::int64_t>(reader_->lines().offset()) : 0);
}

bool InputTexts::read(InputText& text) {
  if (lines_) return read_line(text);
  for (data::Row row;;) {
    if (reader_ && reader_->next(row)) {
      text.texts = {std::string(row.text[0])};
      if (reader_->is_table() && request_.text.size() > 1) text.texts.emplace_back(row.text[1]);
      return true;
    }
    if (file_ == files_.size()) return false;
    if (file_ > 0) before_ += data::text_bytes(files_[file_ - 1]);
    reader_.emplace(files_[file_++], request_);
  }
}

bool InputTexts::read_line(InputText& text) {
  std::string_view line;
  if (!lines_->next(line)) return false;
  const std::size_t tab = pairs_ ? line.find('\t') : std::string_view::npos;
  if (tab != std::string_view::npos && line.find('\t', tab + 1) != std::string_view::npos)
    fail_input("[predict] stdin:{}: has more than two columns; a line is one text, or two with a tab between",
               lines_->line());
  text.texts = {std::string(line.substr(0, tab))};
  if (tab != std::string_view::npos) text.texts.emplace_back(line.substr(tab + 1));
  if (data::is_blank(line)) return true;
  if (columns_ == 0) columns_ = text.texts.size();
  if (text.texts.size() != columns_)
    fail_input("[predict] stdin:{}: has {}, the lines before have {}; give every line as many", lines_->line(),
               text.texts.size() == 1 ? "one text" : "two texts", columns_ == 1 ? "one" : "two");
  return true;
}

Answers::Answers(const OptionValues& values, std::string list, std::string item)
    : form_(values.flag("jsonl")  ? Form::jsonl
            : values.flag("json") ? Form::json
                                  : Form::plain),
      list_(std::move(list)),
      item_(std::move(item)) {
  if (values.flag("json") && values.flag("jsonl"))
    fail_input("[predict] --json and --jsonl exclude each other; give one");
}

void Answers::line(std::string_view text) {
  out_ += text;
  out_ += '\n';
}

void Answers::value(report::Json answer) {
  ++count_;
  if (form_ == Form::json) {
    out_ += fmt::format("{}\n    {}", count_ == 1 ? "" : ",", report::dump(answer, -1));
    return;
  }
  report::Json object{{"line", count_}};
  if (answer.is_object())
    object.update(answer);
  else
    object[item_] = std::move(answer);
  out_ += report::dump(object, -1) + "\n";
}

void Answers::flush() {
  if (form_ == Form::json || out_.empty()) return;
  print_out(out_);
  out_.clear();
}

// Writes one line per answer. Normal JSON indentation would put each number of an embedding on a line of its own.
void Answers::finish(const report::Json& beside) {
  if (form_ != Form::json) return flush();
  report::Json document = report::document("predict");
  document.update(beside);
  std::string head = report::dump(document);
  head.resize(head.rfind("\n}"));
  print_out(fmt::format("{},\n  \"{}\": [{}\n  ]\n}}\n", head, list_, out_));
}

std::vector<Option> answer_options() {
  return {{.name = "data",
           .type = OptionType::list,
           .group = "Data",
           .help = "answer the lines or rows of these files in place of standard input: .txt, .csv, .tsv or .jsonl, "
                   "plain, .gz or .zst",
           .metavar = "FILE,...",
           .in_config = false,
           .synonyms = {"prompt", "input", "file"},
           .files = FileUse::read},
          json_option(),
          {.name = "jsonl",
           .type = OptionType::flag,
           .group = "Output",
           .help = "print one JSON object for each line, as soon as it is answered",
           .in_config = false,
           .synonyms = {"stream", "streaming"}}};
}

}  // namespace comera::tools
