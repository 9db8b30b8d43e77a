// Reads any bytes as a config.json. Either an error with a message, or a `comera` block that survives writing and whose
// own tensors describe() accepts.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lib/core/error.h"
#include "lib/io/chain_parts.h"

using namespace comera;

namespace {

std::vector<io::ModelFolder::Entry> entries_of(const io::ComeraBlock& block) {
  std::vector<io::ModelFolder::Entry> entries;
  for (const io::ChainSpec& chain : block.chains)
    for (const io::ChainPart& part : io::parts_of(chain)) {
      using Role = io::ChainPart::Role;
      const io::StoredType type = part.role == Role::indices ? io::StoredType::I32
                                  : part.role == Role::codes ? io::StoredType::U8
                                                             : io::StoredType::F32;
      entries.push_back({{part.name, type, part.shape, 0, 0}, 0});
    }
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return io::natural_less(a.tensor.name, b.tensor.name); });
  return entries;
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
    io::describe(entries_of(*block), *block, "input");
  } catch (const InputError&) {
  }
  return 0;
}
