// Writes LoRA adapters of PEFT: adapter_config.json and adapter_model.safetensors. Their scale is 1.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lib/io/safetensors.h"
#include "lib/tt/matrix.h"

namespace comera::io {

struct LoraModule {
  std::string name;  // of the weight, without ".weight"
  std::int64_t rank = 0, in = 0, out = 0;
  StoredType type = StoredType::F32;
};

struct LoraFactors {
  tt::FloatMatrix a, b;  // a [R, in], b [out, R]
};

// Size of adapter_model.safetensors.
std::uint64_t lora_bytes(const std::vector<LoraModule>& modules);

// Makes the folder, which must not exist. `base`: path or name of the model that it belongs to. Factors are requested
// once per module, in order of their names; memory holds those of one module.
void write_lora(const std::string& folder, const std::vector<LoraModule>& modules, const std::string& base,
                const std::function<LoraFactors(const LoraModule&)>& factors);

}  // namespace comera::io
