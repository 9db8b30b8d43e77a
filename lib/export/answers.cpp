#include "lib/export/answers.h"

#include <algorithm>
#include <cmath>

#include "lib/core/error.h"
#include "lib/core/terminal/stop.h"
#include "lib/engine/answer.h"
#include "models/planning.h"

namespace comera::exporting {
namespace {

using data::Task;

data::Batch batch_of(const models::Spec& spec, const RandomTokens& tokens) {
  data::Batch batch = models::planning_batch(spec, tokens.sequences, tokens.length, 0.15);
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
  return std::any_of(inputs.begin(), inputs.end(),
                     [](const auto& input) { return input.name().starts_with("past_key_values."); });
}

// Columns [first, last) of an array [batch, sequence].
Array columns(const Array& array, std::int64_t first, std::int64_t last) {
  Array part{{array.dims[0], last - first}, false, {}, {}};
  for (std::int64_t b = 0; b < array.dims[0]; ++b)
    for (std::int64_t t = first; t < last; ++t)
      part.integers.push_back(array.integers[static_cast<std::size_t>(b * array.dims[1] + t)]);
  return part;
}

// Adds an empty past: the inputs of a graph before its first token, with size 0 on the axis of tokens.
void add_empty_past(const onnx::ModelProto& model, std::int64_t sequences, Arrays& inputs) {
  for (const onnx::ValueInfoProto& input : model.graph().input()) {
    if (!input.name().starts_with("past_key_values.")) continue;
    const auto& dims = input.type().tensor_type().shape().dim();
    inputs[input.name()] = {{sequences, dims[1].dim_value(), 0, dims[3].dim_value()}, true, {}, {}};
  }
}

// Joins the logits [batch, sequence, vocabulary] of two consecutive runs along the sequence.
Array join(const Array& a, const Array& b) {
  Array both{{a.dims[0], a.dims[1] + b.dims[1], a.dims[2]}, true, {}, {}};
  for (std::int64_t i = 0; i < a.dims[0]; ++i)
    for (const Array* part : {&a, &b}) {
      const std::int64_t row = part->dims[1] * part->dims[2];
      both.reals.insert(both.reals.end(), part->reals.begin() + i * row, part->reals.begin() + (i + 1) * row);
    }
  return both;
}

Arrays run_graph(io::OnnxFile& file, const RandomTokens& tokens, const Arrays& inputs, Precision precision,
                 std::uint64_t noise) {
  if (!has_past(file.model())) return evaluate(file, inputs, precision, noise);
  const std::int64_t half = tokens.length / 2;
  Arrays first, second;
  for (const char* name : {"input_ids", "position_ids", "attention_mask"}) {
    first[name] = columns(inputs.at(name), 0, half);
    second[name] = columns(inputs.at(name), half, tokens.length);
  }
  second["attention_mask"] = inputs.at("attention_mask");
  add_empty_past(file.model(), tokens.sequences, first);
  Arrays begun = evaluate(file, first, precision, noise);
  for (auto& [name, array] : begun)
    if (name.starts_with("present.")) second["past_key_values." + name.substr(8)] = std::move(array);
  Arrays ended = evaluate(file, second, precision, noise);
  ended["logits"] = join(begun.at("logits"), ended.at("logits"));
  return ended;
}

// The images that stand for these tokens.
data::Batch images_of(const engine::Engine& engine, const RandomTokens& tokens) {
  return engine.model().planning_batch(tokens.sequences, 1, 0);
}

Arrays inputs_of(const onnx::ModelProto& model, const models::Spec& spec, const engine::Engine& engine,
                 const RandomTokens& tokens) {
  if (spec.task != Task::image) return graph_inputs(model, tokens);
  const data::Batch images = images_of(engine, tokens);
  const TensorView pixels = images["pixel_values"];
  Array array;
  array.dims.assign(pixels.shape.sizes().begin(), pixels.shape.sizes().end());
  const auto numbers = pixels.as<const float>();
  array.reals.assign(numbers.begin(), numbers.end());
  return {{"pixel_values", std::move(array)}};
}

// The outputs of a graph, and functions that read from them the values that the model outputs.
struct Reading {
  const models::Spec& spec;
  const RandomTokens& tokens;
  const Arrays& outputs;

  // The given rows [.., width] of an output.
  std::vector<double> rows(const char* output, const std::vector<std::int64_t>& which, std::int64_t width) const {
    std::vector<double> values;
    for (const std::int64_t row : which) {
      const auto begin = outputs.at(output).reals.begin() + row * width;
      values.insert(values.end(), begin, begin + width);
    }
    return values;
  }
};

// log softmax(row)[target]
double log_probability(const double* row, std::int64_t columns, std::int64_t target) {
  const double most = *std::max_element(row, row + columns);
  double sum = 0;
  for (std::int64_t j = 0; j < columns; ++j) sum += std::exp(row[j] - most);
  return row[target] - most - std::log(sum);
}

// The row of one token per sequence, whose probability is compared.
std::vector<std::int64_t> middle_rows(const RandomTokens& tokens) {
  std::vector<std::int64_t> rows;
  for (std::int64_t b = 0; b < tokens.sequences; ++b)
    rows.push_back(b * tokens.length + tokens.lengths[static_cast<std::size_t>(b)] / 2);
  return rows;
}

// The rows of tokens without padding.
std::vector<std::int64_t> counted_rows(const RandomTokens& tokens) {
  std::vector<std::int64_t> rows;
  for (std::int64_t k = 0; k < tokens.sequences * tokens.length; ++k)
    if (k % tokens.length < tokens.lengths[static_cast<std::size_t>(k / tokens.length)]) rows.push_back(k);
  return rows;
}

// The rows of some tokens of a causal model: every third of the first sequence, and the last of every sequence.
std::vector<std::int64_t> few_rows(const RandomTokens& tokens) {
  std::vector<std::int64_t> rows;
  for (std::int64_t t = 0; t < tokens.length; t += 3) rows.push_back(t);
  for (std::int64_t b = 0; b < tokens.sequences; ++b)
    rows.push_back(b * tokens.length + tokens.lengths[static_cast<std::size_t>(b)] - 1);
  return rows;
}

// The model's scores. All of them are finite.
engine::Scores scores_of(engine::Engine& engine, const data::Batch& batch) {
  check_stop();
  const engine::Scores scores = engine.evaluate(batch);
  engine::check_answer(scores);
  return scores;
}

// The model outputs only losses, so the log probability of one token at one position is compared at a time.
std::vector<double> model_probabilities(const models::Spec& spec, engine::Engine& engine, const RandomTokens& tokens) {
  std::vector<double> values;
  data::Batch batch = batch_of(spec, tokens);
  const auto index = batch["masked_index"].as<std::int32_t>(), targets = batch["masked_targets"].as<std::int32_t>();
  batch.counted = 1;
  for (const std::int64_t row : middle_rows(tokens)) {
    std::fill(index.begin(), index.end(), -1);
    std::fill(targets.begin(), targets.end(), -1);
    index[0] = static_cast<std::int32_t>(row);
    targets[0] = tokens.ids[static_cast<std::size_t>(row)];
    values.push_back(-scores_of(engine, batch).loss);
  }
  return values;
}

// Every embedding, then the hidden states of all tokens without padding.
std::vector<double> model_embeddings(const models::Spec& spec, engine::Engine& engine, const RandomTokens& tokens) {
  const engine::Scores scores = scores_of(engine, batch_of(spec, tokens));
  std::vector<double> values(scores.embedding.begin(), scores.embedding.end());
  for (const std::int64_t k : counted_rows(tokens)) {
    const auto row = scores.hidden.begin() + k * spec.hidden;
    values.insert(values.end(), row, row + spec.hidden);
  }
  return values;
}

// The logits of all tokens without padding.
std::vector<double> model_tags(const models::Spec& spec, engine::Engine& engine, const RandomTokens& tokens) {
  const engine::Scores scores = scores_of(engine, batch_of(spec, tokens));
  std::vector<double> values;
  for (const std::int64_t k : counted_rows(tokens)) {
    const auto row = scores.logits.begin() + k * spec.outputs();
    values.insert(values.end(), row, row + spec.outputs());
  }
  return values;
}

std::vector<double> model_logits(engine::Engine& engine, const RandomTokens& tokens) {
  const std::vector<std::int64_t> few = few_rows(tokens);
  const std::vector<std::int32_t> rows(few.begin(), few.end());
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
  const engine::Scores scores = scores_of(engine, batch);
  return {scores.logits.begin(), scores.logits.end()};
}

std::vector<double> graph_answers(const Reading& reading) {
  const std::int64_t words = reading.spec.vocabulary;
  switch (reading.spec.task) {
    case Task::classify:
    case Task::multilabel:
    case Task::regression: return reading.outputs.at("logits").reals;
    case Task::tag: return reading.rows("logits", counted_rows(reading.tokens), reading.spec.outputs());
    case Task::clm: return reading.rows("logits", few_rows(reading.tokens), words);
    case Task::mlm: {
      std::vector<double> values;
      for (const std::int64_t row : middle_rows(reading.tokens))
        values.push_back(log_probability(reading.outputs.at("logits").reals.data() + row * words, words,
                                         reading.tokens.ids[static_cast<std::size_t>(row)]));
      return values;
    }
    case Task::embed: {
      std::vector<double> values = reading.outputs.at("sentence_embedding").reals;
      const std::vector<double> hidden =
          reading.rows("last_hidden_state", counted_rows(reading.tokens), reading.spec.hidden);
      values.insert(values.end(), hidden.begin(), hidden.end());
      return values;
    }
    case Task::image: return reading.outputs.at("logits").reals;
    case Task::pairs:       // is stored as embed
    case Task::ctr: break;  // has no graph
  }
  COMERA_CHECK(false);
}

}  // namespace

std::vector<double> model_answers(const models::Spec& spec, engine::Engine& engine, const RandomTokens& tokens) {
  switch (spec.task) {
    case Task::classify:
    case Task::multilabel:
    case Task::regression: {
      const engine::Scores scores = scores_of(engine, batch_of(spec, tokens));
      return {scores.logits.begin(), scores.logits.end()};
    }
    case Task::tag: return model_tags(spec, engine, tokens);
    case Task::pairs: break;  // is stored as embed
    case Task::mlm: return model_probabilities(spec, engine, tokens);
    case Task::embed: return model_embeddings(spec, engine, tokens);
    case Task::clm: return model_logits(engine, tokens);
    case Task::image: {
      const engine::Scores scores = scores_of(engine, images_of(engine, tokens));
      return {scores.logits.begin(), scores.logits.end()};
    }
    case Task::ctr: {  // clicks on spread rows; the tokens are not read
      const engine::Scores scores = scores_of(engine, engine.model().planning_batch(16 * tokens.sequences, 1, 0));
      return {scores.logits.begin(), scores.logits.end()};
    }
  }
  COMERA_CHECK(false);
}

Answer ask(io::OnnxFile& file, const models::ModelSpec& spec, engine::Engine& engine, const RandomTokens& tokens,
           std::uint64_t float_runs) {
  const models::Spec& common = models::common(spec);
  const Arrays inputs = inputs_of(file.model(), common, engine, tokens);
  const auto asked = [&](Precision precision, std::uint64_t noise = 0) {
    return graph_answers({common, tokens, run_graph(file, tokens, inputs, precision, noise)});
  };
  Answer answer{model_answers(common, engine, tokens), asked(Precision::doubled), {}};
  for (std::uint64_t noise = 0; noise < float_runs; ++noise)
    answer.graph_singles.push_back(asked(Precision::single, noise));
  return answer;
}

}  // namespace comera::exporting
