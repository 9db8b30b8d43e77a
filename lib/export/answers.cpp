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

bool has_past(const onnx::ModelProto& model) {
  const auto& inputs = model.graph().input();
  return std::any_of(inputs.begin(), inputs.end(), [](const auto& input) { return input.name().starts_with("past_key_values."); });
}

// Columns [first, last) of arrays [batch, sequence].
Array columns(const Array& array, std::int64_t first, std::int64_t last) {
  Array part{{array.dims[0], last - first}, false, {}, {}};
  for (std::int64_t b = 0; b < array.dims[0]; ++b)
    for (std::int64_t t = first; t < last; ++t) part.integers.push_back(array.integers[static_cast<std::size_t>(b * array.dims[1] + t)]);
  return part;
}

// The past of a graph that has read nothing: sizes of its inputs, zero where tokens are counted.
void add_empty_past(const onnx::ModelProto& model, std::int64_t sequences, Arrays& inputs) {
  for (const onnx::ValueInfoProto& input : model.graph().input()) {
    if (!input.name().starts_with("past_key_values.")) continue;
    const auto& dims = input.type().tensor_type().shape().dim();
    inputs[input.name()] = {{sequences, dims[1].dim_value(), 0, dims[3].dim_value()}, true, {}, {}};
  }
}

// logits [batch, sequence, vocabulary] of two runs, one behind the other.
Array join(const Array& a, const Array& b) {
  Array both{{a.dims[0], a.dims[1] + b.dims[1], a.dims[2]}, true, {}, {}};
  for (std::int64_t i = 0; i < a.dims[0]; ++i)
    for (const Array* part : {&a, &b}) {
      const std::int64_t row = part->dims[1] * part->dims[2];
      both.reals.insert(both.reals.end(), part->reals.begin() + i * row, part->reals.begin() + (i + 1) * row);
    }
  return both;
}

Arrays run_graph(io::OnnxFile& file, const RandomTokens& tokens, Precision precision) {
  const Arrays inputs = graph_inputs(file.model(), tokens);
  if (!has_past(file.model())) return evaluate(file, inputs, precision);
  const std::int64_t half = tokens.length / 2;
  Arrays first, second;
  for (const char* name : {"input_ids", "position_ids", "attention_mask"}) {
    first[name] = columns(inputs.at(name), 0, half);
    second[name] = columns(inputs.at(name), half, tokens.length);
  }
  second["attention_mask"] = inputs.at("attention_mask");
  add_empty_past(file.model(), tokens.sequences, first);
  Arrays begun = evaluate(file, first, precision);
  for (auto& [name, array] : begun)
    if (name.starts_with("present.")) second["past_key_values." + name.substr(8)] = std::move(array);
  Arrays ended = evaluate(file, second, precision);
  ended["logits"] = join(begun.at("logits"), ended.at("logits"));
  return ended;
}

struct Question {
  const models::Spec& spec;
  train::Engine& engine;
  const RandomTokens& tokens;
  const Arrays& doubled;
  const Arrays& single;

  // Row [.., width] of an output, in both precisions.
  void take(Answer& answer, const char* output, std::int64_t row, std::int64_t width) const {
    for (const auto& [from, to] : {std::pair{&doubled, &answer.graph}, std::pair{&single, &answer.graph_single}}) {
      const auto begin = from->at(output).reals.begin() + row * width;
      to->insert(to->end(), begin, begin + width);
    }
  }
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

// Hidden states of the tokens that count, and every embedding.
Answer embedded(const Question& question) {
  const RandomTokens& tokens = question.tokens;
  const std::int64_t width = question.spec.hidden;
  const train::Scores scores = question.engine.evaluate(batch_of(question.spec, tokens));
  Answer answer{{scores.embedding.begin(), scores.embedding.end()},
                question.doubled.at("sentence_embedding").reals,
                question.single.at("sentence_embedding").reals};
  for (std::int64_t k = 0; k < tokens.sequences * tokens.length; ++k) {
    if (k % tokens.length >= tokens.lengths[static_cast<std::size_t>(k / tokens.length)]) continue;
    const auto row = scores.hidden.begin() + k * width;
    answer.model.insert(answer.model.end(), row, row + width);
    question.take(answer, "last_hidden_state", k, width);
  }
  return answer;
}

// Logits of a few tokens: the last of every sequence, and every third of the first.
Answer continued(const Question& question) {
  const RandomTokens& tokens = question.tokens;
  std::vector<std::int32_t> rows;
  for (std::int64_t t = 0; t < tokens.length; t += 3) rows.push_back(static_cast<std::int32_t>(t));
  for (std::int64_t b = 0; b < tokens.sequences; ++b)
    rows.push_back(static_cast<std::int32_t>(b * tokens.length) + tokens.lengths[static_cast<std::size_t>(b)] - 1);
  data::Batch batch;
  batch.sequences = tokens.sequences;
  batch.length = tokens.length;
  const auto add = [&](const char* name, const Shape& shape, const std::vector<std::int32_t>& values) {
    std::copy(values.begin(), values.end(), batch.add(name, DType::i32, shape).as<std::int32_t>().begin());
  };
  add("input_ids", {tokens.sequences, tokens.length}, tokens.ids);
  add("lengths", {tokens.sequences}, tokens.lengths);
  add("logit_rows", {static_cast<std::int64_t>(rows.size())}, rows);
  const auto samples = batch.add("samples", DType::i64, {tokens.sequences}).as<std::int64_t>();
  std::fill(samples.begin(), samples.end(), 0);
  const train::Scores scores = question.engine.evaluate(batch);
  Answer answer{{scores.logits.begin(), scores.logits.end()}, {}, {}};
  for (const std::int32_t row : rows) question.take(answer, "logits", row, question.spec.vocabulary);
  return answer;
}

}  // namespace

Answer ask(io::OnnxFile& file, const models::ModelSpec& spec, train::Engine& engine, const RandomTokens& tokens) {
  const Arrays doubled = run_graph(file, tokens, Precision::doubled), single = run_graph(file, tokens, Precision::single);
  const Question question{models::common(spec), engine, tokens, doubled, single};
  switch (question.spec.task) {
    case Task::classify: return classified(question);
    case Task::mlm: return predicted(question);
    case Task::embed: return embedded(question);
    case Task::clm: return continued(question);
  }
  COMERA_CHECK(false);
}

}  // namespace comera::exporting
