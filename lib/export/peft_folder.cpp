#include "lib/export/peft_folder.h"

#include <map>

#include "lib/core/error.h"
#include "lib/core/terminal/stop.h"
#include "lib/export/corrections.h"
#include "lib/io/adapter/write_lora.h"

namespace comera::exporting {
namespace {

struct Adapter {
  std::vector<io::LoraModule> modules;
  std::map<std::string, const io::ChainSpec*> chains;  // by module

  Adapter(const io::ModelFolder& folder, const io::ComeraBlock& block) {
    for (const io::ChainSpec& chain : block.chains) {
      if (!is_linear_correction(chain)) continue;
      modules.push_back(
          {chain.name, correction_rank(chain), chain.rows(), chain.columns(), correction_type(folder, chain)});
      chains[chain.name] = &chain;
    }
    if (modules.empty())
      fail_input(
          "[export] {}: none of its weights has a low-rank correction, which --to peft writes as an adapter; use --to "
          "safetensors, or make corrections: comera tensorize --bits 4 --rank 16 --calibrate TEXT",
          folder.path());
  }
};

PeftFolder described(const io::ModelFolder& folder, const Adapter& adapter, const io::ComeraBlock& block) {
  PeftFolder result;
  result.corrections = std::ssize(adapter.modules);
  result.bytes_adapter = io::lora_bytes(adapter.modules);
  for (const io::LoraModule& module : adapter.modules) result.largest_rank = std::max(result.largest_rank, module.rank);
  for (const io::ChainSpec& chain : block.chains)
    if (has_correction(chain) && chain.table()) result.merged.push_back(chain.name);
  return result;
}

}  // namespace

PeftFolder plan_peft_folder(const io::ModelFolder& folder) {
  const WeightReader weights(folder);
  const Adapter adapter(folder, weights.block());
  PeftFolder result = described(folder, adapter, weights.block());
  result.base = plan_dense_folder(folder, Grids::apart);
  return result;
}

PeftFolder write_peft_folder(const io::ModelFolder& folder, const Target& target, const CheckFolder& check) {
  const WeightReader weights(folder);
  const Adapter adapter(folder, weights.block());
  PeftFolder result = described(folder, adapter, weights.block());
  const auto write_adapter = [&](const std::string& made) {
    const auto factors = [&](const io::LoraModule& module) -> io::LoraFactors {
      check_stop();
      Correction correction = read_correction(folder, *adapter.chains.at(module.name), weights.block().threshold);
      return {std::move(correction.a), std::move(correction.b)};
    };
    io::write_lora(join_path(made, adapter_folder), adapter.modules, target.path, factors);
    if (check) check(made);
  };
  result.base = write_dense_folder(folder, target, write_adapter, Grids::apart);
  return result;
}

}  // namespace comera::exporting
