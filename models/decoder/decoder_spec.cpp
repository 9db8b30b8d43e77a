#include "models/decoder/decoder_spec.h"

#include "lib/core/error.h"
#include "lib/core/units.h"
#include "models/decoder/gpt2_config.h"

namespace comera::models {

std::string DecoderNames::block(std::int64_t index) { return fmt::format("model.layers.{}", index); }

std::string DecoderNames::layer(std::int64_t index, const char* part) {
  return fmt::format("{}.{}", block(index), part);
}

std::string word_name(const DecoderSpec& spec) {
  return spec.family == DecoderFamily::gpt2 ? Gpt2Names(spec).word : DecoderNames::word;
}

std::string decoder_of_words(const DecoderSpec& spec) { return spec.tied ? word_name(spec) : DecoderNames::head; }

std::vector<WeightSite> weight_sites(const DecoderSpec& spec) {
  if (spec.family == DecoderFamily::gpt2) return gpt2_sites(spec);
  using Names = DecoderNames;
  std::vector<WeightSite> sites{{Names::word, spec.vocabulary, spec.hidden, true}};
  const std::int64_t wide = spec.heads * spec.head_size, narrow = spec.key_heads * spec.head_size;
  for (std::int64_t i = 0; i < spec.layers; ++i) {
    const auto add = [&](const char* part, std::int64_t rows, std::int64_t columns) {
      sites.push_back({Names::layer(i, part), rows, columns, false});
    };
    add(Names::query, wide, spec.hidden);
    add(Names::key, narrow, spec.hidden);
    add(Names::value, narrow, spec.hidden);
    add(Names::output, spec.hidden, wide);
    add(Names::gate, spec.intermediate, spec.hidden);
    add(Names::up, spec.intermediate, spec.hidden);
    add(Names::down, spec.hidden, spec.intermediate);
  }
  if (!spec.tied) sites.push_back({Names::head, spec.vocabulary, spec.hidden, true});
  return sites;
}

DecoderSpec with_head(const DecoderSpec& spec, Task task, const std::vector<std::string>&) {
  if (task != Task::clm)
    fail_input("[model] a decoder learns the next word alone; use --task clm, not {}", data::name_of(task));
  return spec;
}

void check(const DecoderSpec& spec) {
  check_common(spec);
  check_size("num_key_value_heads", spec.key_heads, 1 << 12);
  check_size("head_dim", spec.head_size, 1 << 12);
  if (spec.task != Task::clm) fail_input("[model] a decoder predicts the next word; use --task clm");
  if (spec.heads % spec.key_heads != 0)
    fail_input("[model] num_attention_heads {} is not a multiple of num_key_value_heads {}; change one of them",
               spec.heads, spec.key_heads);
  if (has_rotary(spec) && spec.head_size % 2 != 0)
    fail_input("[model] head_dim {} is odd; rotary positions turn pairs, so it must be even", spec.head_size);
  if (!(spec.embedding_dropout >= 0 && spec.embedding_dropout < 1))
    fail_input("[model] dropout {} must be at least 0 and less than 1", spec.embedding_dropout);
  if (spec.window < 0 || (spec.window > 0 && std::ssize(spec.windowed) != spec.layers))
    fail_input("[model] a window of {} keys for {} of {} layers; give it to each layer or to none", spec.window,
               spec.windowed.size(), spec.layers);
  if (!(spec.theta >= 1 && spec.theta <= 1e12))
    fail_input("[model] rope_theta {} must lie between 1 and 1e12", format_real(spec.theta));
}

}  // namespace comera::models
