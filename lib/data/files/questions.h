// Multiple-choice questions: JSONL, one object per line.
#pragma once

#include <string>
#include <vector>

namespace comera::data {

struct Question {
  std::string text;
  std::vector<std::string> choices;  // at least two
  std::size_t answer = 0;            // index of the right choice
};

// Reads {"question": text, "choices": [text, ...], "answer": index from 0 or text of the choice} from files or globs,
// plain, .gz or .zst. Other keys are ignored. Errors name file and line.
std::vector<Question> read_questions(const std::vector<std::string>& files);

}  // namespace comera::data
