// Reads any bytes as a state.json, unchanged (version 1) and with the right checksum (version 2). Either an error with
// a message, or a state that survives writing and whose ranks fit the model or are refused.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "lib/core/error.h"
#include "lib/core/hash.h"
#include "lib/io/json.h"
#include "lib/train/train_state.h"
#include "models/encoder/encoder_spec.h"
#include "models/forms.h"

using namespace comera;

namespace {

models::EncoderSpec small_model() {
  models::EncoderSpec spec;
  spec.vocabulary = 16;
  spec.hidden = 8;
  spec.layers = 1;
  spec.heads = 2;
  spec.intermediate = 16;
  spec.positions = 8;
  models::FormRules rules;
  rules.form = models::Form::tt;
  rules.rank = 4;
  rules.order = 2;
  models::apply_forms(spec, models::weight_sites(spec), rules);
  return spec;
}

void try_to_read(const std::string& text) {
  try {
    const train::TrainState state = train::TrainState::from_json(text, "input");
    if (state.step < 0 || state.data.samples < 0 || state.ranks.late_step > state.step) std::abort();
    static const models::EncoderSpec model = small_model();
    models::EncoderSpec smaller = model;
    models::apply_ranks(smaller, state.rank_table);
    for (const auto& [name, form] : smaller.forms)
      for (std::size_t k = 0; k < form.layout.ranks.size(); ++k)
        if (form.layout.ranks[k] < 0 || form.layout.ranks[k] > model.forms.at(name).layout.ranks.at(k)) std::abort();
    // A state is written only with ranks of a model.
    const std::string written = state.to_json();
    if (train::TrainState::from_json(written, "written").to_json() != written) std::abort();
  } catch (const InputError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try_to_read(text);
  try {
    io::Json json = io::parse_json(text, "input");
    if (!json.is_object()) return 0;
    json.erase("checksum");
    json["checksum"] = hash_text(json.dump());
    try_to_read(json.dump());
  } catch (const InputError&) {
  }
  return 0;
}
