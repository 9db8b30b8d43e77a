#include "models/architecture.h"

#include <nlohmann/json.hpp>

#include "lib/core/error.h"
#include "lib/core/file.h"
#include "models/config_reader.h"
#include "models/decoder.h"
#include "models/decoder_config.h"
#include "models/encoder.h"
#include "models/encoder_config.h"
#include "models/forms.h"

namespace comera::models {
namespace {

std::unique_ptr<layers::Model> make(const EncoderSpec& spec, DType dtype) { return make_encoder(spec, dtype); }
std::unique_ptr<layers::Model> make(const DecoderSpec& spec, DType dtype) { return make_decoder(spec, dtype); }

}  // namespace

const Spec& common(const ModelSpec& spec) {
  return std::visit([](const auto& one) -> const Spec& { return one; }, spec);
}

Spec& common(ModelSpec& spec) {
  return std::visit([](auto& one) -> Spec& { return one; }, spec);
}

std::vector<WeightSite> weight_sites(const ModelSpec& spec) {
  return std::visit([](const auto& one) { return weight_sites(one); }, spec);
}

void check(const ModelSpec& spec) {
  std::visit([](const auto& one) { check(one); }, spec);
}

std::unique_ptr<layers::Model> make_model(const ModelSpec& spec, DType dtype) {
  return std::visit([dtype](const auto& one) { return make(one, dtype); }, spec);
}

layers::ModelFactory factory_of(ModelSpec spec, DType dtype) {
  return [spec = std::move(spec), dtype](const layers::RankTable& ranks) {
    ModelSpec smaller = spec;
    apply_ranks(common(smaller), ranks);
    return make_model(smaller, dtype);
  };
}

ModelSpec parse_config_json(const std::string& text, const std::string& name) {
  const io::Json config = io::parse_json(text, name);
  if (!config.is_object()) fail_input("{}: is not a JSON object; is this a config.json?", name);
  const ConfigReader reader(config, name);
  const std::string type = reader.text("model_type", "");
  if (is_encoder_type(type)) return parse_encoder_config(reader);
  if (type == decoder_type) return parse_decoder_config(reader);
  fail_input("{}: model_type is '{}'; supported here are {} and {}", name, type, encoder_types, decoder_type);
}

ModelSpec spec_from_folder(const std::string& folder) {
  const std::string path = join_path(folder, "config.json");
  return parse_config_json(read_file(path), path);
}

}  // namespace comera::models
