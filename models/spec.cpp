#include "models/spec.h"

#include "lib/core/error.h"
#include "lib/core/units.h"

namespace comera::models {

WeightForm Spec::form_of(const std::string& name) const {
  const auto found = forms.find(name);
  return found == forms.end() ? WeightForm{} : found->second;
}

layers::LinearSpec Spec::linear(const std::string& name, std::int64_t out) const { return {name, out, form_of(name)}; }

void check_size(const char* key, std::int64_t value, std::int64_t most) {
  if (value < 1 || value > most) fail_input("[model] {} is {}; it must lie between 1 and {}", key, value, most);
}

void check_blocks(const Spec& spec) {
  check_size("hidden_size", spec.hidden, 1 << 17);
  check_size("num_hidden_layers", spec.layers, 1 << 12);
  check_size("num_attention_heads", spec.heads, 1 << 12);
  check_size("intermediate_size", spec.intermediate, 1 << 19);
  if (!(spec.epsilon >= 1e-30 && spec.epsilon <= 1))
    fail_input("[model] the norms' epsilon {} must lie between 1e-30 and 1", format_real(spec.epsilon));
  for (const double p : {spec.dropout, spec.attention_dropout})
    if (!(p >= 0 && p < 1)) fail_input("[model] dropout {} must be at least 0 and less than 1", p);
}

void check_common(const Spec& spec) {
  check_size("vocab_size", spec.vocabulary, 1 << 28);
  check_blocks(spec);
  check_size("max_position_embeddings", spec.positions, 1 << 20);
  if (spec.pad < 0 || spec.pad >= spec.vocabulary)
    fail_input("[model] pad_token_id {} lies outside the vocabulary of {} ids", spec.pad, spec.vocabulary);
}

}  // namespace comera::models
