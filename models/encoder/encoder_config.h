// config.json of an encoder: the keys of Hugging Face's BERT, RoBERTa, RoBERTa-PreLayerNorm, DistilBERT, MPNet and
// ModernBERT, and the `comera` block with the form of every weight.
#pragma once

#include <string>

#include "lib/io/model_folder.h"
#include "models/config_reader.h"
#include "models/encoder/encoder_spec.h"

namespace comera::models {

constexpr const char* encoder_types =
    "bert, roberta, roberta-prelayernorm, distilbert, mpnet, modernbert";  // values of model_type
bool is_encoder_type(const std::string& type);

std::string to_config_json(const EncoderSpec& spec, const layers::Model& model);
StoredNames names_in(const io::ModelFolder& folder);
EncoderSpec parse_encoder_config(const ConfigReader& reader, const StoredNames& names = {});

}  // namespace comera::models
