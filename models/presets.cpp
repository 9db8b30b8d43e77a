#include "models/presets.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/core/error.h"
#include "lib/core/hub_hint.h"
#include "lib/core/join.h"
#include "lib/core/options/suggest.h"

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

// Position rows start small relative to word rows. With rows of equal size, half of the first block's input is the
// position, and the first thousand steps are spent on unlearning it (ten points of accuracy after 500 steps on
// WordNet's definitions).
Preset encoder_small() {
  EncoderSpec spec = encoder(4, 256, 4, 1024);
  spec.position_deviation = 0.1;
  return {"encoder-small", "four encoders, 256 wide, for a CPU", spec, 32, 32};
}

// Words stay dense, as does the layer before the tied decoder. Rank 64 in attention and 128 in feed-forward layers give
// the published ratio of CoMERA's model of code (arXiv 2405.14377, section 5): 357,189,408 parameters dense,
// 84,371,232 in TT form.
Preset codebert_large() {
  EncoderSpec spec = encoder(24, 1024, 16, 4096);
  spec.vocabulary = 52000;
  Preset preset{"codebert-large-tt", "24 encoders, 1024 wide, for masked words of code", spec, 64, 64};
  preset.layers = {"*word_embeddings=form:dense", "*transform.dense=form:dense", "*intermediate.dense=rank:128",
                   "*output.dense=rank:128", "*attention.output.dense=rank:64"};
  return preset;
}

// The same for a CPU. Its 512 positions serve both phases of training.
Preset code_small() {
  EncoderSpec spec = encoder(6, 256, 4, 1024);
  spec.vocabulary = 8192;
  spec.position_deviation = 0.1;
  Preset preset{"code-small", "six encoders, 256 wide, for masked words of code on a CPU", spec, 32, 32};
  preset.layers = {"*word_embeddings=form:dense", "*transform.dense=form:dense", "*intermediate.dense=rank:48",
                   "*output.dense=rank:48", "*attention.output.dense=rank:32"};
  return preset;
}

DecoderSpec llama(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t intermediate) {
  DecoderSpec spec;
  spec.vocabulary = 32000;
  spec.layers = layers;
  spec.hidden = hidden;
  spec.heads = spec.key_heads = heads;
  spec.head_size = hidden / heads;
  spec.intermediate = intermediate;
  spec.positions = 1024;
  return spec;
}

// For a CPU: 5.8 million parameters with a vocabulary of 4,096 pieces. The tied table is the decoder too. After 2,000
// steps a pair of rank 64, with a quarter of the dense table's numbers, is .1 nats above it, TTM of rank 32 .6
// (docs/results/training.md).
Preset llama_6m() {
  DecoderSpec spec = llama(6, 256, 4, 688);
  spec.vocabulary = 4096;
  spec.positions = 512;
  spec.tied = true;
  Preset preset{"llama-6m", "six decoders, 256 wide, for a CPU", spec, 32, 32};
  preset.pair_tables = true;
  return preset;
}

// The sizes of GaLore's experiments (arXiv 2403.03507): an untied head and 32,000 pieces.
std::vector<Preset> galore_presets() {
  return {{"llama-60m", "8 decoders, 512 wide", llama(8, 512, 8, 1376), 48, 48},
          {"llama-130m", "12 decoders, 768 wide", llama(12, 768, 12, 2048), 64, 64},
          {"llama-350m", "24 decoders, 1024 wide", llama(24, 1024, 16, 2736), 64, 64},
          {"llama-1b", "24 decoders, 2048 wide", llama(24, 2048, 32, 5461), 128, 128}};
}

// The different categories of the columns in the Criteo Kaggle data, 33,762,577 in all.
constexpr std::int64_t kaggle_rows[] = {1460,  583,  10131227, 2202608, 305, 24,     12517,   633,   3,
                                        93145, 5683, 8351593,  3194,    27,  14992,  5461306, 10,    5652,
                                        2173,  4,    7046547,  18,      15,  286181, 105,     142572};

// `most`: the limit of a table's rows, as --hash-rows sets it.
DlrmSpec dlrm(std::int64_t width, std::int64_t most, std::vector<std::int64_t> bottom, std::vector<std::int64_t> top) {
  DlrmSpec spec;
  spec.hidden = width;
  spec.inputs = data::criteo_schema();
  for (std::size_t i = 0; i < spec.inputs.categories.size(); ++i)
    spec.inputs.categories[i].rows = std::min(most, kaggle_rows[i]);
  spec.bottom = std::move(bottom), spec.top = std::move(top);
  return spec;
}

// The layers of Meta's script for Criteo Kaggle, with tables of width 32: 4.0 GiB, the size of CoMERA's experiment.
std::vector<Preset> dlrm_presets() {
  return {{"dlrm-kaggle", "Meta's DLRM for Criteo Kaggle, tables 32 wide",
           dlrm(32, data::most_rows, {512, 256, 64}, {512, 256}), 32, 32, 20000, 65536},
          {"dlrm-small", "DLRM with tables 16 wide, for a CPU", dlrm(16, 10000, {64}, {128, 64}), 16, 16, 1000, 65536}};
}

// The widths of DeiT-Ti (Touvron et al. 2020, arXiv 2012.12877, table 1).
VitSpec vit(std::int64_t image, std::int64_t patch, std::int64_t channels, std::int64_t layers, std::int64_t labels) {
  VitSpec spec;
  spec.image = image, spec.patch = patch, spec.channels = channels;
  spec.positions = spec.tokens();
  spec.layers = layers, spec.hidden = 192, spec.heads = 3, spec.intermediate = 768;
  for (std::int64_t label = 0; label < labels; ++label) spec.labels.push_back(std::to_string(label));
  return spec;
}

// 2,684,554 parameters with 10 labels; 5,717,416 with 1,000.
std::vector<Preset> vit_presets() {
  return {{"vit-mini", "vision transformer for gray images of 28 x 28, patches of 4, six blocks 192 wide, for a CPU",
           vit(28, 4, 1, 6, 10), 24, 24},
          {"vit-tiny", "vision transformer for images of 224 x 224, patches of 16, twelve blocks 192 wide",
           vit(224, 16, 3, 12, 1000), 24, 24}};
}

std::vector<Preset> all_presets() {
  std::vector<Preset> all{mnli_6enc(), encoder_small(), codebert_large(), code_small(), llama_6m()};
  for (Preset& preset : dlrm_presets()) all.push_back(std::move(preset));
  for (Preset& preset : vit_presets()) all.push_back(std::move(preset));
  for (Preset& preset : galore_presets()) all.push_back(std::move(preset));
  return all;
}

}  // namespace

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = all_presets();
  return all;
}

bool is_preset(const std::string& name) {
  return std::ranges::any_of(presets(), [&](const Preset& preset) { return preset.name == name; });
}

const Preset& find_preset(const std::string& name) {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) {
    if (preset.name == name) return preset;
    names.push_back(preset.name);
  }
  fail_input(
      "[model] there is no preset '{}'{}; use one of {}; a checkpoint is trained further by `comera finetune FOLDER`{}",
      name, did_you_mean(name, names), join(names, ", "), hub_hint(name));
}

}  // namespace comera::models
