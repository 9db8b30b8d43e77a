// A BERT of three blocks and a decoder of two, with their vocabulary, and text of its words.
#pragma once

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "lib/core/files/file.h"
#include "lib/io/json.h"
#include "lib/io/safetensors.h"
#include "lib/plan/walk.h"

namespace comera::compress {

constexpr int vocabulary = 40, hidden = 32, intermediate = 64, blocks = 3;

inline io::Json config() {
  return {{"model_type", "bert"},        {"architectures", {"BertForMaskedLM"}},
          {"hidden_size", hidden},       {"intermediate_size", intermediate},
          {"num_hidden_layers", blocks}, {"num_attention_heads", 4},
          {"vocab_size", vocabulary},    {"max_position_embeddings", 32},
          {"type_vocab_size", 2},        {"pad_token_id", 0},
          {"hidden_act", "gelu"}};
}

inline std::map<std::string, io::FileShape> shapes() {
  std::map<std::string, io::FileShape> all{{"bert.embeddings.word_embeddings.weight", {vocabulary, hidden}},
                                           {"bert.embeddings.position_embeddings.weight", {32, hidden}},
                                           {"bert.embeddings.token_type_embeddings.weight", {2, hidden}},
                                           {"cls.predictions.transform.dense.weight", {hidden, hidden}},
                                           {"cls.predictions.transform.dense.bias", {hidden}},
                                           {"cls.predictions.bias", {vocabulary}}};
  std::vector<std::string> norms{"bert.embeddings.LayerNorm", "cls.predictions.transform.LayerNorm"};
  for (int i = 0; i < blocks; ++i) {
    const std::string block = "bert.encoder.layer." + std::to_string(i) + ".";
    for (const char* part :
         {"attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"})
      all[block + part + ".weight"] = {hidden, hidden}, all[block + part + ".bias"] = {hidden};
    all[block + "intermediate.dense.weight"] = {intermediate, hidden},
                all[block + "intermediate.dense.bias"] = {intermediate};
    all[block + "output.dense.weight"] = {hidden, intermediate}, all[block + "output.dense.bias"] = {hidden};
    norms.push_back(block + "attention.output.LayerNorm"), norms.push_back(block + "output.LayerNorm");
  }
  for (const std::string& norm : norms) all[norm + ".weight"] = {hidden}, all[norm + ".bias"] = {hidden};
  return all;
}

// Strongly anisotropic inputs: rows of tables and norms differ much in size.
inline void write_weights(const std::string& folder, const std::map<std::string, io::FileShape>& all) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 0.2f);
  std::map<std::string, std::vector<float>> values;
  std::vector<io::TensorToWrite> tensors;
  for (const auto& [name, shape] : all) {
    std::vector<float>& data = values[name];
    for (std::int64_t i = 0; i < io::elements_of(shape); ++i)
      data.push_back(normal(random) * std::exp(-0.1f * static_cast<float>(i % shape.back())));
    if (shape.size() == 1 && (name.ends_with("LayerNorm.weight") || name.ends_with("norm.weight")))
      for (std::size_t i = 0; i < data.size(); ++i) data[i] = std::exp(-0.15f * static_cast<float>(i));
  }
  for (const auto& [name, shape] : all) tensors.push_back({name, io::StoredType::F32, shape, values[name].data()});
  io::write_safetensors(folder + "/model.safetensors", tensors, {});
}

inline void write_model(const std::string& folder) {
  write_weights(folder, shapes());
  write_file_atomic(folder + "/config.json", io::json_text(config()));
  std::string words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (int i = 5; i < vocabulary; ++i) words += fmt::format("w{}\n", i);
  write_file_atomic(folder + "/vocab.txt", words);
}

// A decoder of two blocks with the same words. With `tied` its decoder of words is the word table.
inline void write_decoder(const std::string& folder, bool tied) {
  write_model(folder);  // for the vocabulary
  const io::Json decoder{{"model_type", "llama"},    {"architectures", {"LlamaForCausalLM"}},
                         {"hidden_size", hidden},    {"intermediate_size", intermediate},
                         {"num_hidden_layers", 2},   {"num_attention_heads", 4},
                         {"vocab_size", vocabulary}, {"max_position_embeddings", 32},
                         {"rms_norm_eps", 1e-5},     {"tie_word_embeddings", tied},
                         {"hidden_act", "silu"}};
  std::map<std::string, io::FileShape> all{{"model.embed_tokens.weight", {vocabulary, hidden}},
                                           {"model.norm.weight", {hidden}}};
  if (!tied) all["lm_head.weight"] = {vocabulary, hidden};
  for (int i = 0; i < 2; ++i) {
    const std::string block = fmt::format("model.layers.{}.", i);
    for (const char* part : {"q_proj", "k_proj", "v_proj", "o_proj"})
      all[block + "self_attn." + part + ".weight"] = {hidden, hidden};
    all[block + "mlp.gate_proj.weight"] = all[block + "mlp.up_proj.weight"] = {intermediate, hidden};
    all[block + "mlp.down_proj.weight"] = {hidden, intermediate};
    all[block + "input_layernorm.weight"] = all[block + "post_attention_layernorm.weight"] = {hidden};
  }
  write_file_atomic(folder + "/config.json", io::json_text(decoder));
  write_weights(folder, all);
}

inline void write_text(const std::string& path) {
  std::mt19937 random(9);
  std::string text;
  for (int line = 0; line < 160; ++line) {
    for (int word = 0; word < 6 + line % 9; ++word)
      text += fmt::format("w{} ", 5 + random() % (vocabulary - 5) * (random() % 3 != 0));
    text += '\n';
  }
  write_file_atomic(path, text);
}

inline plan::Machine machine() {
  const char* error = nullptr;
  const kernels::Backend* backend = kernels::cpu_backend("auto", &error);
  REQUIRE(backend);
  return {backend, DType::f32, nullptr};
}

}  // namespace comera::compress
