// The small models of tests/models/interop/families_reference.py as folders.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "lib/core/files/file.h"
#include "lib/engine/engine.h"
#include "lib/engine/generate.h"
#include "lib/io/safetensors.h"
#include "models/architecture.h"
#include "models/planning.h"
#include "tests/models/families_reference.h"

namespace families {

// The weights of the reference, by number of the tensor in the order of names.
inline void write_weights(const std::string& path, const comera::layers::Model& model) {
  using namespace comera;
  std::map<std::string, const layers::Parameter*> by_name;
  for (const auto& parameter : model.parameters().all()) by_name[parameter.name] = &parameter;
  std::map<std::string, std::vector<float>> values;
  std::vector<io::TensorToWrite> tensors;
  int number = 0;
  for (const auto& [name, parameter] : by_name) {
    const Shape& sizes = parameter->file_shape.dims() > 0 ? parameter->file_shape : parameter->shape;
    io::FileShape shape(sizes.sizes().begin(), sizes.sizes().end());
    if (parameter->transposed_in_file && parameter->file_shape.dims() == 0) std::swap(shape[0], shape[1]);
    std::vector<float>& out = values[name];
    for (std::int64_t i = 0; i < parameter->shape.elements(); ++i) {
      const auto place = static_cast<double>(i + 1);
      const double wave = std::sin(0.37 * place + 0.11 * place * place + number);
      const bool norm = shape.size() == 1 && name.ends_with(".weight");
      out.push_back(static_cast<float>(norm ? 1 + 0.5 * wave : (shape.size() > 1 ? 0.2 : 0.5) * wave));
    }
    tensors.push_back({name, io::StoredType::F32, shape, out.data()});
    ++number;
  }
  io::write_safetensors(path, tensors, {});
}

// Writes config.json and model.safetensors into a folder that exists.
inline comera::models::ModelSpec write_folder(const std::string& folder, const char* config) {
  using namespace comera;
  write_file_atomic(folder + "/config.json", config);
  const models::ModelSpec spec = models::parse_config_json(config, "config.json");
  write_weights(folder + "/model.safetensors", *models::make_model(spec, DType::f32));
  return spec;
}

// The logits of the text at `rows`, one row after another.
inline std::vector<double> decoder_answers(comera::engine::Engine& engine) {
  using namespace comera;
  data::Batch batch;
  engine::fill_generation_batch(batch, data::Ids(std::begin(ids), std::end(ids)), 0, 0);
  auto wanted = batch.add("logit_rows", DType::i32, {std::ssize(rows)}).as<std::int32_t>();
  std::copy(std::begin(rows), std::end(rows), wanted.begin());
  const engine::Scores scores = engine.evaluate(batch);
  return {scores.logits.begin(), scores.logits.end()};
}

// The two texts of the encoders.
inline comera::data::Batch encoder_batch(const comera::models::Spec& spec) {
  using namespace comera;
  constexpr auto length = static_cast<std::int64_t>(std::size(ids));
  data::Batch batch = models::planning_batch(spec, 2, length, 0.15);
  const auto all = batch["input_ids"].as<std::int32_t>();
  std::copy(std::begin(ids), std::end(ids), all.begin());
  for (std::int64_t t = 0; t < length; ++t)
    all[static_cast<std::size_t>(length + t)] = t < short_length ? ids[short_length - 1 - t] : pad;
  const auto own = static_cast<std::int32_t>(spec.pad);
  for (std::int32_t& id : all) id = id == pad ? own : id == own ? pad : id;
  const auto lengths = batch["lengths"].as<std::int32_t>();
  lengths[0] = static_cast<std::int32_t>(length), lengths[1] = short_length;
  batch.tokens = length + short_length;
  return batch;
}

// The answers that families_reference.py writes for an encoder.
inline std::vector<double> encoder_answers(const comera::models::Spec& spec, comera::engine::Engine& engine) {
  using namespace comera;
  data::Batch batch = encoder_batch(spec);
  std::vector<double> answers;
  if (spec.task != data::Task::mlm) {
    const engine::Scores scores = engine.evaluate(batch);
    if (spec.task != data::Task::embed) return {scores.logits.begin(), scores.logits.end()};
    for (const int row : encoder_rows)
      answers.insert(answers.end(), scores.hidden.begin() + row * spec.hidden,
                     scores.hidden.begin() + (row + 1) * spec.hidden);
    return answers;
  }
  const auto index = batch["masked_index"].as<std::int32_t>(), targets = batch["masked_targets"].as<std::int32_t>();
  for (const int row : encoder_rows) {
    std::fill(index.begin(), index.end(), -1);
    std::fill(targets.begin(), targets.end(), -1);
    index[0] = row;
    targets[0] = batch["input_ids"].as<std::int32_t>()[static_cast<std::size_t>(row)];
    batch.counted = 1;
    answers.push_back(-engine.evaluate(batch).loss);
  }
  return answers;
}

}  // namespace families
