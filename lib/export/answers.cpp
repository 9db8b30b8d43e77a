#include "lib/export/answers.h"

#include <algorithm>
#include <cmath>

#include "lib/core/error.h"

namespace comera::exporting {
namespace {

using data::Task;

data::Batch batch_of(const models::Spec& spec, const RandomTokens& tokens) {
  data::Batch batch = train::planning_batch(spec.task, tokens.sequences, tokens.length, 0.15);
  const auto fill = [&](const char* name, const std::vector<std::int32_t>& values) {
    std::copy(values.begin(), values.end(), batch[name].as<std::int32_t>().begin());
  };
  fill("input_ids", tokens.ids);
  fill("token_type_ids", tokens.types);
  fill("lengths", tokens.lengths);
  return batch;
}

struct Question {
  const models::Spec& spec;
  train::Engine& engine;
  const RandomTokens& tokens;
  const Arrays& doubled;
  const Arrays& single;
};

Answer classified(const Question& question) {
  const train::Scores scores = question.engine.evaluate(batch_of(question.spec, question.tokens));
  return {{scores.logits.begin(), scores.logits.end()}, question.doubled.at("logits").reals, question.single.at("logits").reals};
}

// log softmax(row)[target]
double log_probability(const double* row, std::int64_t columns, std::int64_t target) {
  const double most = *std::max_element(row, row + columns);
  double sum = 0;
  for (std::int64_t j = 0; j < columns; ++j) sum += std::exp(row[j] - most);
  return row[target] - most - std::log(sum);
}

// The model hands out losses, so what is compared is the log probability of one token at one place at a time.
Answer predicted(const Question& question) {
  const RandomTokens& tokens = question.tokens;
  Answer answer;
  data::Batch batch = batch_of(question.spec, tokens);
  const auto index = batch["masked_index"].as<std::int32_t>(), targets = batch["masked_targets"].as<std::int32_t>();
  batch.counted = 1;
  for (std::int64_t b = 0; b < tokens.sequences; ++b) {
    const std::int64_t row = b * tokens.length + tokens.lengths[static_cast<std::size_t>(b)] / 2, width = question.spec.vocabulary;
    std::fill(index.begin(), index.end(), -1);
    std::fill(targets.begin(), targets.end(), -1);
    index[0] = static_cast<std::int32_t>(row);
    targets[0] = tokens.ids[static_cast<std::size_t>(row)];
    answer.model.push_back(-question.engine.evaluate(batch).loss);
    for (const auto& [from, to] : {std::pair{&question.doubled, &answer.graph}, std::pair{&question.single, &answer.graph_single}})
      to->push_back(log_probability(from->at("logits").reals.data() + row * width, width, targets[0]));
  }
  return answer;
}

}  // namespace

Answer ask(io::OnnxFile& file, const models::ModelSpec& spec, train::Engine& engine, const RandomTokens& tokens) {
  const Arrays inputs = graph_inputs(file.model(), tokens);
  const Arrays doubled = evaluate(file, inputs, Precision::doubled), single = evaluate(file, inputs, Precision::single);
  const Question question{models::common(spec), engine, tokens, doubled, single};
  switch (question.spec.task) {
    case Task::classify: return classified(question);
    case Task::mlm: return predicted(question);
  }
  COMERA_CHECK(false);
}

}  // namespace comera::exporting
