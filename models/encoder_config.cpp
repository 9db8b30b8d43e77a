#include "models/encoder_config.h"

namespace comera::models {
std::string to_config_json(const EncoderSpec&, const layers::Model&) { return ""; }
}  // namespace comera::models
