#include "models/presets.h"

#include <fmt/ranges.h>

#include "lib/core/error.h"
#include "lib/core/suggest.h"

namespace comera::models {
namespace {

EncoderSpec encoder(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t intermediate) {
  EncoderSpec spec;
  spec.vocabulary = 30522;
  spec.layers = layers;
  spec.hidden = hidden;
  spec.heads = heads;
  spec.intermediate = intermediate;
  spec.labels = {"entailment", "neutral", "contradiction"};
  return spec;
}

// The six-encoder transformer of CoMERA (arXiv 2405.14377): 66,957,315 parameters dense, 1,485,795 in TT form.
Preset mnli_6enc() {
  EncoderSpec spec = encoder(6, 768, 12, 3072);
  spec.epsilon = 1e-9;
  return {"mnli-6enc", "the paper's six-encoder transformer, 768 wide", spec, 30, 32};
}

// Positions start small beside the words: with rows of the same size half of what the first block reads is the position, and the first
// thousand steps are spent on unlearning it (ten points of accuracy after 500 steps on WordNet's definitions).
Preset encoder_small() {
  EncoderSpec spec = encoder(4, 256, 4, 1024);
  spec.position_deviation = 0.1;
  return {"encoder-small", "four encoders, 256 wide, for a CPU", spec, 32, 32};
}

}  // namespace

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all{mnli_6enc(), encoder_small()};
  return all;
}

const Preset& find_preset(const std::string& name) {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) {
    if (preset.name == name) return preset;
    names.push_back(preset.name);
  }
  fail_input("[model] there is no preset '{}'{}; use one of {}", name, did_you_mean(name, names), fmt::join(names, ", "));
}

}  // namespace comera::models
