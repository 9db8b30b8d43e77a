#include "lib/data/files/questions.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"
#include "lib/data/files/files.h"
#include "lib/data/files/line_reader.h"
#include "lib/io/json.h"

namespace comera::data {
namespace {

const io::Json& member(const io::Json& json, const char* name, const std::string& where) {
  const auto found = json.find(name);
  if (found == json.end())
    fail_input("{}: has no key '{}'; the keys of a question are question, choices and answer", where, name);
  return *found;
}

std::string text_of(const io::Json& json, const char* name, const std::string& where) {
  if (!json.is_string() || json.get_ref<const std::string&>().empty())
    fail_input("{}: '{}' is {}, a string that is not empty is wanted", where, name,
               json.is_string() ? "empty" : printable(json.dump().substr(0, 60)));
  return json.get<std::string>();
}

std::size_t answer_of(const io::Json& json, const std::vector<std::string>& choices, const std::string& where) {
  if (json.is_string()) {
    const auto found = std::find(choices.begin(), choices.end(), json.get_ref<const std::string&>());
    if (found != choices.end()) return static_cast<std::size_t>(found - choices.begin());
  } else if (json.is_number_integer()) {
    const auto index = json.get<std::int64_t>();
    if (index >= 0 && index < std::ssize(choices)) return static_cast<std::size_t>(index);
  }
  fail_input("{}: the answer {} is none of the {} choices; write the text of one, or its index from 0", where,
             printable(json.dump().substr(0, 60)), choices.size());
}

Question question_of(std::string_view line, const std::string& where) {
  const io::Json json = io::parse_json(line, where);
  if (!json.is_object()) fail_input("{}: is not a JSON object; write one question in braces per line", where);
  Question question;
  question.text = text_of(member(json, "question", where), "question", where);
  const io::Json& choices = member(json, "choices", where);
  if (!choices.is_array() || choices.size() < 2)
    fail_input("{}: 'choices' is {}; a list of two texts or more is wanted", where,
               printable(choices.dump().substr(0, 60)));
  for (const io::Json& choice : choices) question.choices.push_back(text_of(choice, "choices", where));
  question.answer = answer_of(member(json, "answer", where), question.choices, where);
  return question;
}

}  // namespace

std::vector<Question> read_questions(const std::vector<std::string>& files) {
  std::vector<Question> questions;
  for (const std::string& file : resolve_files(files)) {
    LineReader lines(file);
    Reading reading(file);
    for (std::string_view line; lines.next(line); reading.at(lines))
      if (!line.empty()) questions.push_back(question_of(line, fmt::format("[data] {}: line {}", file, lines.line())));
  }
  return questions;
}

}  // namespace comera::data
