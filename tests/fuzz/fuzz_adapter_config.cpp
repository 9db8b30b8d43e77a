// Reads any bytes as the adapter_config.json of PEFT. Either an error with a message, or finite scales and positive
// ranks for every module.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lib/core/error.h"
#include "lib/io/adapter/lora_config.h"

using namespace comera;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const io::LoraConfig config = io::parse_lora_config({reinterpret_cast<const char*>(data), size}, "input");
    for (const char* module : {"model.layers.0.self_attn.q_proj", "q_proj", "model.layers.1.mlp.down_proj", ""}) {
      if (config.rank_of(module) < 1) std::abort();
      if (!std::isfinite(config.scale_of(module))) std::abort();
    }
  } catch (const InputError&) {
  }
  return 0;
}
