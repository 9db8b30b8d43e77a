// config.json of a DLRM: embedding_size, bottom_mlp, top_mlp, `features` (the schema of its inputs) and the `comera`
// block with the form of every weight.
#pragma once

#include <string>

#include "models/config_reader.h"
#include "models/dlrm/dlrm_spec.h"

namespace comera::models {

constexpr const char* dlrm_type = "dlrm";  // value of model_type

std::string to_config_json(const DlrmSpec& spec, const layers::Model& model);
DlrmSpec parse_dlrm_config(const ConfigReader& reader);

}  // namespace comera::models
