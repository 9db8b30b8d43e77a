#include "lib/data/dataset.h"

#include <algorithm>

#include "lib/core/error.h"
#include "lib/core/hash.h"
#include "lib/core/options/suggest.h"
#include "lib/core/terminal/log.h"
#include "lib/data/chat/chat_template.h"
#include "lib/data/files/files.h"

namespace comera::data {
namespace {

constexpr std::int64_t shortest_length = 8;

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

// A text whose lines end in carriage returns alone, as on old Macs, is one line. Other texts may hold some, too.
void tell_carriage_returns(std::string_view text, const TextReader& reader) {
  if (reader.is_table() || text.find('\r') == std::string_view::npos || reader.lines().line_end().ends_with('\n'))
    return;
  log_warning(
      "{}: line {} has carriage returns inside; if lines end in them, convert the file, for instance with tr '\\r' "
      "'\\n'",
      reader.lines().path(), reader.lines().line());
}

// Reads every file up to its first text, so that an empty or unreadable file or a missing column is an error before
// the run begins.
void check_corpus(const FileDataset& dataset) {
  bool any = false;
  for (const std::string& file : dataset.files()) {
    TextReader reader(file, dataset.request(longest_part));
    bool found = false;
    if (dataset.spec().text.size() > 1 && !reader.is_table())
      fail_input("[data] {}: is text without columns, but --text names {}; use a table, or leave out --text", file,
                 joined(dataset.spec().text));
    const std::size_t learned = dataset.spec().text.size() > 1 ? 1 : 0;
    for (Row row; !found && reader.next(row);) {
      tell_carriage_returns(row.text[0], reader);
      found = !is_blank(row.text[learned]);
    }
    any = any || found;
  }
  if (!any) fail_input("[data] {}: holds no text to learn from", joined(dataset.files()));
}

}  // namespace

FileDataset::FileDataset(DataSpec given, std::shared_ptr<const Tokenizer> tokenizer, std::vector<std::string> labels)
    : table(std::move(labels)), spec_(std::move(given)), tokenizer_(std::move(tokenizer)) {
  if (spec_.chat) {
    if (spec_.task != Task::clm)
      fail_input("[data] --chat is for decoders (--task clm), the task is {}", name_of(spec_.task));
    require_chat_tokenizer(*tokenizer_);
    if (spec_.text.empty()) spec_.text = {"messages"};
  }
  if (spec_.task != Task::clm) require_specials(*tokenizer_, spec_.task == Task::mlm);
  if (spec_.max_length < shortest_length)
    fail_input("[data] a length of {} tokens is too short; use --seq {} or more", spec_.max_length, shortest_length);
  check_columns();
  if (spec_.text.size() > 1 && tokenizer_->specials().separators == 0)
    fail_input("[tokenizer] {}: its post_processor does not tell what stands between two texts, but --text names {}",
               tokenizer_->source(), joined(spec_.text));
  asked_ = spec_.text_asked && !spec_.text.empty();
  if (spec_.task != Task::classify && spec_.text.empty()) spec_.text = {"text"};
}

void FileDataset::check_columns() const {
  const std::string task = name_of(spec_.task);
  if ((spec_.task == Task::clm || spec_.task == Task::tag) && spec_.text.size() > 1)
    fail_input("[data] the {} task reads one column, but --text names {}; name one", task, joined(spec_.text));
  if (spec_.task == Task::pairs && spec_.text.size() != 2)
    fail_input("[data] the pairs task reads two columns, but --text names {}; name the columns of the two texts",
               spec_.text.empty() ? "none" : joined(spec_.text));
  if (spec_.task != Task::mlm || spec_.text.size() < 2) return;
  const std::int64_t room = spec_.max_length - 2 - tokenizer_->specials().separators - first_tokens(spec_);
  if (room < 1)
    fail_input("[data] a first text of {} tokens leaves no room for the second in {} tokens; use --first-length {}",
               first_tokens(spec_), spec_.max_length, std::max<std::int64_t>(1, spec_.max_length / 4));
}

TextRequest FileDataset::request(std::size_t longest) const {
  const std::string label = predicts_words(spec_.task) ? "" : spec_.label;
  TextRequest request{spec_.format, spec_.text, asked_, label, longest};
  request.cut = [tokenizer = tokenizer_.get()](std::string_view text) { return tokenizer->cut(text); };
  request.conversations = spec_.chat != nullptr;
  return request;
}

void FileDataset::read_files() {
  files_ = resolve_files(spec_.files);
  hash_ = hash_files(files_);
  if (predicts_words(spec_.task)) return check_corpus(*this);
  const bool collect = spec_.task != Task::regression && table.labels().empty();
  for (const std::string& file : files_) {
    TextReader reader(file, request(0));
    read_rows(reader);
  }
  if (table.size() == 0)
    fail_input("[data] {}: there are no rows; a header line and at least one row are wanted", joined(files_));
  tell_empty_texts();
  if (collect) table.sort_labels();
}

// They are learned and counted, because a text can be empty by its nature; `predict` has no answer for them.
void FileDataset::tell_empty_texts() const {
  const int texts = spec_.text.size() > 1 ? 2 : 1;
  for (int which = 0; which < texts; ++which) {
    std::int64_t empty = 0;
    for (std::int64_t row = 0; row < table.size(); ++row) empty += is_blank(table.text(row, which));
    const std::string column = spec_.text.empty() ? "text" : spec_.text[static_cast<std::size_t>(which)];
    if (empty == table.size())
      fail_input("[data] {}: holds no text; every row of the column '{}' is empty", joined(files_), column);
    if (empty > 0)
      log_warning("{}: {} of {} rows have an empty text{} and count like the others", joined(files_), empty,
                  table.size(), texts > 1 ? fmt::format(" in the column '{}'", column) : "");
  }
}

void FileDataset::read_rows(TextReader& reader) {
  switch (spec_.task) {
    case Task::regression: return table.read_scores(reader, spec_.label);
    case Task::multilabel: return table.read_sets(reader, spec_.label);
    case Task::tag: return table.read_tags(reader, spec_.label);
    case Task::pairs: return table.read_pairs(reader, spec_.text);
    default: return table.read(reader, spec_.label);
  }
}

void FileDataset::take_rows(const std::vector<std::vector<std::string>>& texts,
                            const std::vector<std::int32_t>& labels) {
  Hasher hasher;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string second = texts[i].size() > 1 ? texts[i][1] : std::string();
    table.add(texts[i].at(0), second, i < labels.size() ? labels[i] : -1);
    hasher.update(fmt::format("{};{};{}{}", texts[i][0].size(), second.size(), texts[i][0], second));
  }
  hash_ = hasher.hex();
}

std::int32_t FileDataset::label_index(std::string_view label) const {
  const auto& known = labels();
  const auto found = std::find(known.begin(), known.end(), label);
  if (found == known.end())
    fail_input("[data] unknown label '{}'; the labels are {}{}", label, joined(known), did_you_mean(label, known));
  return static_cast<std::int32_t>(found - known.begin());
}

void check_files(const DataSpec& spec) {
  const std::vector<std::string> files = resolve_files(spec.files);
  bool any = false;
  for (const std::string& file : files) {
    TextReader reader(file, {.format = spec.format,
                             .text = spec.text,
                             .named = spec.text_asked && !spec.text.empty(),
                             .label = predicts_words(spec.task) ? "" : spec.label,
                             .longest = predicts_words(spec.task) ? longest_part : 0,
                             .conversations = spec.chat != nullptr});
    Row row;
    any = reader.next(row) || any;
  }
  if (!any) fail_input("[data] {}: holds no text to learn from", joined(files));
}

std::shared_ptr<const TextDataset> Dataset::open(const DataSpec& spec, std::shared_ptr<const Tokenizer> tokenizer,
                                                 std::vector<std::string> labels) {
  auto dataset = std::make_shared<FileDataset>(spec, std::move(tokenizer), std::move(labels));
  dataset->read_files();
  return dataset;
}

std::shared_ptr<const TextDataset> Dataset::from_rows(const DataSpec& spec, std::shared_ptr<const Tokenizer> tokenizer,
                                                      const std::vector<std::vector<std::string>>& texts,
                                                      const std::vector<std::int32_t>& labels,
                                                      std::vector<std::string> names) {
  auto dataset = std::make_shared<FileDataset>(spec, std::move(tokenizer), std::move(names));
  dataset->take_rows(texts, labels);
  return dataset;
}

}  // namespace comera::data
