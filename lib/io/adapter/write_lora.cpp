#include "lib/io/adapter/write_lora.h"

#include <map>

#include "lib/core/error.h"
#include "lib/io/adapter/lora_config.h"

namespace comera::io {
namespace {

constexpr const char* weights_name = "adapter_model.safetensors";

std::string tensor_name(const LoraModule& module, char factor) {
  return fmt::format("base_model.model.{}.lora_{}.weight", module.name, factor);
}

std::vector<TensorToWrite> tensors_of(const std::vector<LoraModule>& modules) {
  std::vector<TensorToWrite> tensors;
  for (const LoraModule& module : modules) {
    tensors.push_back({tensor_name(module, 'A'), module.type, {module.rank, module.in}});
    tensors.push_back({tensor_name(module, 'B'), module.type, {module.out, module.rank}});
  }
  return tensors;
}

Metadata metadata() { return {{"format", "pt"}}; }

}  // namespace

std::uint64_t lora_bytes(const std::vector<LoraModule>& modules) {
  return safetensors_bytes(tensors_of(modules), metadata());
}

void write_lora(const std::string& folder, const std::vector<LoraModule>& modules, const std::string& base,
                const std::function<LoraFactors(const LoraModule&)>& factors) {
  make_folders(folder);
  std::map<std::string, const LoraModule*> module_of;
  std::map<std::string, std::int64_t> ranks;
  for (const LoraModule& module : modules) {
    ranks[module.name] = module.rank;
    for (const char factor : {'A', 'B'}) module_of[tensor_name(module, factor)] = &module;
  }
  // Both factors of a module follow each other in the file.
  const LoraModule* last = nullptr;
  LoraFactors both;
  write_safetensors(join_path(folder, weights_name), tensors_of(modules), metadata(),
                    [&](const TensorToWrite& tensor, TensorSink& sink) {
                      const LoraModule* module = module_of.at(tensor.name);
                      if (module != last) both = factors(*(last = module));
                      sink.floats((tensor.name.ends_with("_A.weight") ? both.a : both.b).values);
                    });
  write_file_atomic(join_path(folder, "adapter_config.json"), lora_config_text(ranks, base));
}

}  // namespace comera::io
