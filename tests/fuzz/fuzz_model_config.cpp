// Reads any bytes as the config.json of an encoder and of a decoder. Either an error with a message, or a model whose
// sizes can be multiplied without overflow.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lib/core/error.h"
#include "models/config_reader.h"
#include "models/decoder/decoder_config.h"
#include "models/encoder/encoder_config.h"

using namespace comera;

namespace {

template <class Read>
void try_to(const Read& read) {
  try {
    const auto spec = read();
    if (spec.vocabulary < 1 || spec.hidden < 1 || spec.pad < 0 || spec.pad >= spec.vocabulary || !(spec.epsilon > 0))
      std::abort();
    if (!(spec.threshold >= 0) && spec.threshold > -1e300) std::abort();
    std::int64_t sites = 0, chains = 0;
    for (const models::WeightSite& site : weight_sites(spec)) sites += site.rows * site.columns;
    for (const auto& [name, form] : spec.forms) {
      std::int64_t product = 1;
      for (const std::int64_t mode : form.layout.modes) product *= mode;
      for (std::size_t k = 0; k + 1 < form.layout.ranks.size(); ++k)
        chains += form.layout.ranks[k] * form.layout.ranks[k + 1];
      if (product < 1) std::abort();
    }
    if (sites < 1 || chains < 0) std::abort();
  } catch (const InputError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string name = "input";
  try {
    const io::Json config = io::parse_json({reinterpret_cast<const char*>(data), size}, name);
    if (!config.is_object()) return 0;
    const models::ConfigReader reader(config, name);
    try_to([&] { return models::parse_encoder_config(reader, {}); });
    try_to([&] { return models::parse_decoder_config(reader); });
  } catch (const InputError&) {
  }
  return 0;
}
