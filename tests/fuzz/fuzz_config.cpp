// Any bytes as a config.json: refused with a sentence, or a `comera` block that survives writing and whose own tensors describe() accepts.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lib/core/error.h"
#include "lib/io/tt_format.h"

using namespace comera;

namespace {

std::vector<io::ModelFolder::Entry> entries_of(const io::ComeraBlock& block) {
  std::vector<io::ModelFolder::Entry> entries;
  for (const io::ChainSpec& chain : block.chains) {
    for (std::size_t k = 0; k < chain.cores() && !chain.empty(); ++k) {
      entries.push_back({{chain.core_name(k), io::StoredType::F32, chain.core_shape(k), 0, 0}, 0});
      if (chain.sorted && k == 0) entries.push_back({{chain.order_name(), io::StoredType::I32, {chain.in()}, 0, 0}, 0});
      if (chain.gauge && k == 0) entries.push_back({{chain.gauge_name(), io::StoredType::I32, {chain.ranks[chain.middle()]}, 0, 0}, 0});
      if (!chain.folded && k + 1 < chain.cores()) entries.push_back({{chain.diagonal_name(k), io::StoredType::F32, {chain.ranks[k + 1]}, 0, 0}, 0});
    }
  }
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return io::natural_less(a.tensor.name, b.tensor.name); });
  return entries;
}

// Numbers of a core that no file could hold would overflow the sums.
bool modest(const io::ComeraBlock& block) {
  return std::all_of(block.chains.begin(), block.chains.end(), [](const io::ChainSpec& chain) {
    return std::all_of(chain.ranks.begin(), chain.ranks.end(), [](std::int64_t rank) { return rank < 1000; });
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const io::Json config = io::parse_json(text, "input");
    io::json_text(config);
    const auto block = io::parse_comera_block(config, "input");
    if (!block) return 0;
    io::Json written;
    written["comera"] = io::to_json(*block);
    const auto again = io::parse_comera_block(io::parse_json(io::json_text(written), "written"), "written");
    if (!again || io::to_json(*again) != written["comera"]) std::abort();
    if (modest(*block)) io::describe(entries_of(*block), *block, "input");
  } catch (const InputError&) {
  }
  return 0;
}
