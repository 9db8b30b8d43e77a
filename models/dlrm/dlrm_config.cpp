#include "models/dlrm/dlrm_config.h"

#include "lib/core/error.h"

namespace comera::models {
namespace {

using io::Json;

constexpr const char* architecture = "DLRM";

std::vector<std::int64_t> widths_in(const ConfigReader& reader, const char* key) {
  const Json& config = reader.config();
  if (!config.contains(key) || !config[key].is_array())
    fail_input("{}: '{}' must be a list of widths, such as [512, 256]", reader.name(), key);
  std::vector<std::int64_t> widths;
  for (const Json& width : config[key]) {
    if (!width.is_number_integer() || width.get<double>() < 1 || width.get<double>() > (1 << 17))
      fail_input("{}: '{}' must hold whole numbers from 1 to {}", reader.name(), key, 1 << 17);
    widths.push_back(width.get<std::int64_t>());
  }
  return widths;
}

}  // namespace

std::string to_config_json(const DlrmSpec& spec, const layers::Model& model) {
  Json config = config_start(spec);
  config["architectures"] = Json::array({architecture});
  config["model_type"] = dlrm_type;
  config["embedding_size"] = spec.hidden;
  config["bottom_mlp"] = spec.bottom;
  config["top_mlp"] = spec.top;
  config["features"] = io::parse_json(data::schema_json(spec.inputs), "features");
  config["torch_dtype"] = torch_dtype(model);
  write_forms(config, model);
  return io::json_text(config);
}

DlrmSpec parse_dlrm_config(const ConfigReader& reader) {
  if (reader.architecture() != architecture)
    fail_input("{}: architecture {} is not supported; of model_type {}, {} is", reader.name(), reader.architecture(),
               dlrm_type, architecture);
  DlrmSpec spec;
  spec.source = reader.config().dump();
  spec.hidden = reader.integer("embedding_size");
  spec.bottom = widths_in(reader, "bottom_mlp");
  spec.top = widths_in(reader, "top_mlp");
  if (!reader.has("features"))
    fail_input("{}: 'features' is missing; is this the config.json of a model?", reader.name());
  spec.inputs = data::parse_schema(reader.config()["features"].dump(), reader.name() + ": features");
  check_and_read_forms(spec, reader);
  return spec;
}

}  // namespace comera::models
