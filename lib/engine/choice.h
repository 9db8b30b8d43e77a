// Multiple choice: which of some texts a decoder finds the most probable after a question.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/data/files/questions.h"
#include "lib/engine/engine.h"

namespace comera::engine {

// log p(choice | question), summed over the choice's tokens. A blank stands between question and choice. None is
// added where the question ends or the choice begins with white space.
struct ChoiceLikelihood {
  double log_likelihood = 0;
  // bytes: of the choice without white space before it, whether the file has it or it is added. So a choice counts the
  // same with its blank and without.
  std::int64_t tokens = 0, bytes = 0;
};

struct ChoiceOptions {
  std::int64_t batch = 32;      // sequences
  std::int64_t max_length = 0;  // tokens; the beginning of a longer question is left out
  std::int32_t begin = -1;      // piece before the question; -1: none
  std::int32_t pad = 0;
};

// Accuracy by the sum of log-likelihoods, by their mean per token, and by their mean per byte, with standard errors
// sqrt(p (1 - p) / questions).
struct ChoiceEvaluation {
  std::int64_t questions = 0;
  double by_sum = 0, by_token = 0, by_byte = 0;
  double chance = 0;           // accuracy of guesses
  std::int64_t shortened = 0;  // sequences whose question was cut
  double seconds = 0;
  std::vector<std::vector<ChoiceLikelihood>> choices;  // [question][choice]

  double error(double accuracy) const;
};

// Throws InputError if a choice alone is longer than max_length. Throws Stopped on a signal.
ChoiceEvaluation evaluate_choices(Engine& engine, const data::Tokenizer& tokenizer,
                                  std::span<const data::Question> questions, const ChoiceOptions& options);

// The index with the largest value of `score`; the first of equal ones.
enum class ChoiceScore : std::uint8_t { sum, per_token, per_byte };
std::size_t best_choice(std::span<const ChoiceLikelihood> choices, ChoiceScore score);

}  // namespace comera::engine
