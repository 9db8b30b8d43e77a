#include "lib/engine/choice.h"

#include <algorithm>
#include <cmath>

#include "lib/core/error.h"
#include "lib/core/process.h"
#include "lib/core/terminal/stop.h"
#include "lib/core/terminal/task_progress.h"
#include "lib/data/collate.h"
#include "lib/data/tokenizer/unicode.h"
#include "lib/engine/answer.h"

namespace comera::engine {
namespace {

// A question with one of its choices.
struct Candidate {
  std::size_t question, choice;
  data::Ids ids;
  std::int64_t scored;  // the last tokens, those of the choice
};

bool is_space(char c) { return data::is_space(static_cast<unsigned char>(c)); }

std::int64_t bytes_of(const std::string& choice) {
  return choice.end() - std::find_if_not(choice.begin(), choice.end(), is_space);
}

// The text of a question with one of its choices.
std::string joined(const std::string& question, const std::string& choice) {
  const bool apart = (!question.empty() && is_space(question.back())) || (!choice.empty() && is_space(choice.front()));
  return question + (apart ? "" : " ") + choice;
}

// The tokens of the choice are those behind the tokens that the whole has in common with the question alone.
Candidate candidate_of(const data::Question& question, std::size_t number, std::size_t choice,
                       const data::Tokenizer& tokenizer, const ChoiceOptions& options) {
  data::Ids known, whole;
  if (options.begin >= 0) known.push_back(options.begin), whole.push_back(options.begin);
  tokenizer.encode(question.text, known);
  tokenizer.encode(joined(question.text, question.choices[choice]), whole);
  const auto differ = std::mismatch(known.begin(), known.end(), whole.begin(), whole.end()).second;
  // The first token of all has no probability.
  const std::int64_t shared = std::clamp<std::int64_t>(differ - whole.begin(), 1, std::ssize(whole));
  const std::int64_t scored = std::ssize(whole) - shared;
  return {number, choice, std::move(whole), scored};
}

std::vector<Candidate> candidates_of(std::span<const data::Question> questions, const data::Tokenizer& tokenizer,
                                     const ChoiceOptions& options, ChoiceEvaluation& result) {
  std::vector<Candidate> all;
  for (std::size_t q = 0; q < questions.size(); ++q)
    for (std::size_t c = 0; c < questions[q].choices.size(); ++c) {
      check_stop();
      Candidate candidate = candidate_of(questions[q], q, c, tokenizer, options);
      if (candidate.scored == 0)
        fail_input("[evaluate] question {}: the tokenizer has no tokens for its choice {}", q + 1, c + 1);
      if (candidate.scored >= options.max_length)
        fail_input("[evaluate] question {}: its choice {} has {} tokens, and --seq is {}", q + 1, c + 1,
                   candidate.scored, options.max_length);
      const std::int64_t beyond = std::ssize(candidate.ids) - options.max_length;
      if (beyond > 0) candidate.ids.erase(candidate.ids.begin(), candidate.ids.begin() + beyond), ++result.shortened;
      all.push_back(std::move(candidate));
    }
  std::stable_sort(all.begin(), all.end(),
                   [](const Candidate& a, const Candidate& b) { return a.ids.size() < b.ids.size(); });
  return all;
}

// Row t of the logits predicts token t + 1. Unused rows are row 0, so that few shapes are planned.
void fill_batch(std::span<const Candidate> rows, std::int32_t pad, data::Batch& batch) {
  batch.sequences = std::ssize(rows);
  batch.length = data::round_up_length(std::ssize(rows.back().ids));
  const auto ids = batch.add("input_ids", DType::i32, {batch.sequences, batch.length}).as<std::int32_t>();
  const auto lengths = batch.add("lengths", DType::i32, {batch.sequences}).as<std::int32_t>();
  const auto samples = batch.add("samples", DType::i64, {batch.sequences}).as<std::int64_t>();
  std::fill(ids.begin(), ids.end(), pad);
  std::fill(samples.begin(), samples.end(), 0);
  std::vector<std::int32_t> wanted;
  for (std::size_t b = 0; b < rows.size(); ++b) {
    const data::Ids& row = rows[b].ids;
    const auto first = static_cast<std::int64_t>(b) * batch.length;
    std::copy(row.begin(), row.end(), ids.begin() + first);
    lengths[b] = static_cast<std::int32_t>(row.size());
    for (std::int64_t t = std::ssize(row) - rows[b].scored; t < std::ssize(row); ++t)
      wanted.push_back(static_cast<std::int32_t>(first + t - 1));
  }
  wanted.resize((wanted.size() + 31) / 32 * 32);
  const auto logit_rows = batch.add("logit_rows", DType::i32, {std::ssize(wanted)}).as<std::int32_t>();
  std::copy(wanted.begin(), wanted.end(), logit_rows.begin());
}

double log_probability(std::span<const double> logits, std::int32_t id) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - largest);
  return logits[static_cast<std::size_t>(id)] - largest - std::log(sum);
}

void take_scores(std::span<const Candidate> rows, std::span<const double> logits, std::size_t words,
                 std::span<const data::Question> questions, ChoiceEvaluation& result) {
  std::size_t row = 0;
  for (const Candidate& candidate : rows) {
    ChoiceLikelihood& own = result.choices[candidate.question][candidate.choice];
    own.tokens = candidate.scored;
    own.bytes = bytes_of(questions[candidate.question].choices[candidate.choice]);
    for (std::int64_t t = std::ssize(candidate.ids) - candidate.scored; t < std::ssize(candidate.ids); ++t, ++row)
      own.log_likelihood +=
          log_probability(logits.subspan(row * words, words), candidate.ids[static_cast<std::size_t>(t)]);
  }
}

double accuracy(std::span<const data::Question> questions, const ChoiceEvaluation& result, ChoiceScore score) {
  double right = 0;
  for (std::size_t q = 0; q < questions.size(); ++q)
    right += best_choice(result.choices[q], score) == questions[q].answer;
  return right / static_cast<double>(std::max<std::size_t>(questions.size(), 1));
}

}  // namespace

double ChoiceEvaluation::error(double accuracy) const {
  return std::sqrt(accuracy * (1 - accuracy) / static_cast<double>(std::max<std::int64_t>(questions, 1)));
}

std::size_t best_choice(std::span<const ChoiceLikelihood> choices, ChoiceScore score) {
  const auto value = [&](const ChoiceLikelihood& choice) {
    const std::int64_t divisor = score == ChoiceScore::sum         ? 1
                                 : score == ChoiceScore::per_token ? choice.tokens
                                                                   : choice.bytes;
    return choice.log_likelihood / static_cast<double>(std::max<std::int64_t>(divisor, 1));
  };
  std::size_t best = 0;
  for (std::size_t c = 1; c < choices.size(); ++c)
    if (value(choices[c]) > value(choices[best])) best = c;
  return best;
}

ChoiceEvaluation evaluate_choices(Engine& engine, const data::Tokenizer& tokenizer,
                                  std::span<const data::Question> questions, const ChoiceOptions& options) {
  const double start = wall_seconds();
  ChoiceEvaluation result;
  result.questions = std::ssize(questions);
  for (const data::Question& question : questions) {
    result.choices.emplace_back(question.choices.size());
    result.chance += 1 / static_cast<double>(question.choices.size()) / static_cast<double>(questions.size());
  }
  const std::vector<Candidate> candidates = candidates_of(questions, tokenizer, options, result);
  TaskProgress task("evaluating", std::ssize(candidates));
  data::Batch batch;
  for (std::size_t first = 0; first < candidates.size(); first += static_cast<std::size_t>(options.batch)) {
    check_stop();
    const auto rows = std::span(candidates)
                          .subspan(first, std::min(static_cast<std::size_t>(options.batch), candidates.size() - first));
    fill_batch(rows, options.pad, batch);
    const Scores scores = engine.evaluate(batch);
    check_answer(scores);
    const std::size_t words = scores.logits.size() / static_cast<std::size_t>(batch["logit_rows"].elements());
    take_scores(rows, scores.logits, words, questions, result);
    task.advance(std::ssize(rows));
  }
  result.by_sum = accuracy(questions, result, ChoiceScore::sum);
  result.by_token = accuracy(questions, result, ChoiceScore::per_token);
  result.by_byte = accuracy(questions, result, ChoiceScore::per_byte);
  result.seconds = wall_seconds() - start;
  return result;
}

}  // namespace comera::engine
