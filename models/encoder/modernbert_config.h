// The keys of Hugging Face's ModernBertConfig that other encoders do not have.
#pragma once

#include "models/config_reader.h"
#include "models/encoder/encoder_spec.h"

namespace comera::models {

void write_modernbert_config(const EncoderSpec& spec, io::Json& config);
// Sets `modern` and `pre_norm`; `spec` has its layers and its task. InputError that names a key that does not fit.
void read_modernbert_config(const ConfigReader& reader, EncoderSpec& spec);

}  // namespace comera::models
