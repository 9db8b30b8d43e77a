// config.json of a vision transformer: the keys of Hugging Face's ViTConfig, and the `comera` block with the form of
// every weight.
#pragma once

#include <string>

#include "models/config_reader.h"
#include "models/vit/vit_spec.h"

namespace comera::models {

constexpr const char* vit_type = "vit";  // value of model_type

std::string to_config_json(const VitSpec& spec, const layers::Model& model);
VitSpec parse_vit_config(const ConfigReader& reader);

}  // namespace comera::models
