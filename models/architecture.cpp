#include "models/architecture.h"

#include <algorithm>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/terminal/log.h"
#include "lib/io/json_file.h"
#include "lib/io/tt_format.h"
#include "models/config_reader.h"
#include "models/decoder/decoder.h"
#include "models/decoder/decoder_config.h"
#include "models/dlrm/dlrm.h"
#include "models/dlrm/dlrm_config.h"
#include "models/encoder/encoder.h"
#include "models/encoder/encoder_config.h"
#include "models/forms.h"
#include "models/sentence.h"
#include "models/vit/vit.h"
#include "models/vit/vit_config.h"

namespace comera::models {
namespace {

std::unique_ptr<layers::Model> make(const EncoderSpec& spec, DType dtype) { return make_encoder(spec, dtype); }
std::unique_ptr<layers::Model> make(const DecoderSpec& spec, DType dtype) { return make_decoder(spec, dtype); }
std::unique_ptr<layers::Model> make(const DlrmSpec& spec, DType dtype) { return make_dlrm(spec, dtype); }
std::unique_ptr<layers::Model> make(const VitSpec& spec, DType dtype) { return make_vit(spec, dtype); }

// The part of a model that is an encoder; null: none.
const EncoderSpec* encoder_in(const ModelSpec& spec) {
  if (const auto* vit = std::get_if<VitSpec>(&spec)) return vit;
  return std::get_if<EncoderSpec>(&spec);
}

}  // namespace

void check(const ModelSpec& spec) {
  std::visit([](const auto& one) { check(one); }, spec);
}

ModelSpec with_head(const ModelSpec& spec, Task task, const std::vector<std::string>& labels) {
  return std::visit([&](const auto& one) -> ModelSpec { return with_head(one, task, labels); }, spec);
}

void unfold(Spec& spec) {
  for (auto& [name, form] : spec.forms) form.folded = form.layout.gauge = false;
}

std::string name_prefix(const ModelSpec& spec) {
  const EncoderSpec* encoder = encoder_in(spec);
  return encoder ? EncoderNames(*encoder).prefix() : "";
}

bool is_in_head(const ModelSpec& spec, const std::string& parameter) {
  const EncoderSpec* encoder = encoder_in(spec);
  if (!encoder || data::makes_vectors(encoder->task)) return false;
  const EncoderNames names(*encoder);
  const std::vector<std::string> parts =
      encoder->task != Task::mlm ? std::vector<std::string>{names.head_dense, names.head_norm, names.classifier}
                                 : std::vector{names.transform, names.transform_norm, names.decoder_bias};
  return std::any_of(parts.begin(), parts.end(),
                     [&](const std::string& part) { return parameter == part || parameter.starts_with(part + "."); });
}

std::unique_ptr<layers::Model> make_model(const ModelSpec& spec, DType dtype) {
  std::unique_ptr<layers::Model> model = std::visit([dtype](const auto& one) { return make(one, dtype); }, spec);
  model->set_threshold(common(spec).threshold);
  return model;
}

void run_on_grids(ModelSpec& spec) {
  Spec& all = common(spec);
  for (const auto& [name, form] : all.on_grids) all.forms[name] = form;
}

layers::ModelFactory factory_of(ModelSpec spec, DType dtype) {
  return [spec = std::move(spec), dtype](const layers::RankTable& ranks) {
    ModelSpec smaller = spec;
    apply_ranks(common(smaller), ranks);
    return make_model(smaller, dtype);
  };
}

bool is_known_type(const std::string& model_type) {
  return is_encoder_type(model_type) || is_decoder_type(model_type) || model_type == dlrm_type ||
         model_type == vit_type;
}

bool has_known_type(const io::ModelFolder& folder) {
  const auto type = folder.config().find("model_type");
  return type != folder.config().end() && type->is_string() && is_known_type(type->get<std::string>());
}

ModelSpec parse_config_json(const std::string& text, const std::string& name, const StoredNames& names) {
  const io::Json config = io::parse_json(text, name);
  if (!config.is_object()) fail_input("{}: is not a JSON object; is this a config.json?", name);
  const ConfigReader reader(config, name);
  const std::string type = reader.text("model_type", "");
  if (is_encoder_type(type)) return parse_encoder_config(reader, names);
  if (is_decoder_type(type)) return parse_decoder_config(reader, names);
  if (type == dlrm_type) return parse_dlrm_config(reader);
  if (type == vit_type) return parse_vit_config(reader);
  fail_input("{}: model_type is '{}'; supported here are {}, {}, {} and {}", name, printable(type), encoder_types,
             decoder_types, dlrm_type, vit_type);
}

ModelSpec spec_from_folder(const std::string& folder) {
  const io::ModelFolder files(folder);
  io::describe(files);  // checks the chains by the rules of all readers before the model is built
  // The bytes of the file, because messages count them; a GGUF file has keys alone.
  const std::string text =
      files.is_gguf() ? io::json_text(files.config()) : read_file(files.config_path(), io::largest_config);
  ModelSpec spec = parse_config_json(text, files.config_path(), names_in(files));
  if (auto* encoder = std::get_if<EncoderSpec>(&spec)) {
    // Also for other tasks: the same encoder may learn vectors next, and its folder keeps these files. The length is
    // that of vectors.
    encoder->sentence = read_sentence_rules(folder);
    if (encoder->task != Task::embed) encoder->sentence.max_length = 0;
  }
  return spec;
}

}  // namespace comera::models
