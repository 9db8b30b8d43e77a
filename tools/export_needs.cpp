#include "tools/export_needs.h"

#include <algorithm>

#include "lib/core/error.h"
#include "lib/core/files/free_space.h"
#include "lib/core/memory.h"
#include "lib/core/terminal/log.h"
#include "lib/core/units.h"
#include "lib/io/tt_format.h"

namespace comera::tools {

double memory_of_largest(const io::ModelFolder& folder) {
  double largest = 0;
  if (const auto block = io::parse_comera_block(folder.config(), folder.config_path()))
    for (const io::ChainSpec& chain : block->chains)
      largest = std::max(largest, static_cast<double>(io::elements_of(chain.shape)));
  return 2 * sizeof(float) * largest;
}

std::uint64_t least_bytes(const io::ModelFolder& folder, exporting::GraphForm form) {
  const auto block = io::parse_comera_block(folder.config(), folder.config_path());
  double bytes = 0;
  for (const io::ChainSpec& chain : block ? block->chains : std::vector<io::ChainSpec>()) {
    const auto numbers = static_cast<double>(io::elements_of(chain.shape));
    if (chain.base) bytes += numbers / 4;  // 2 bits
    if (chain.base || chain.layout.empty() || form != exporting::GraphForm::factors) continue;
    const auto rank = static_cast<double>(chain.layout.ranks[chain.layout.middle()]);
    bytes += 2 * std::min(numbers, rank * static_cast<double>(chain.rows() + chain.columns()));  // fp16
  }
  return static_cast<std::uint64_t>(bytes);
}

void settle_needs(const OptionValues& values, const exporting::Target& target, const ExportNeeds& needs) {
  const auto& [bytes, memory, least] = needs;
  const std::optional<std::uint64_t> space = free_space(target.path);
  const std::uint64_t free = free_memory().free;  // 0: unknown
  const bool planned = values.flag("dry-run") && !least;
  const auto refuse = [&](const std::string& text) {
    if (!planned) fail_run("[export] {}", text);
    log_warning("[export] {}", text);
  };
  if (!values.flag("dry-run") && !values.flag("json"))
    log_info("{}: {}{} to write{}", printable(target.path), least ? "at least " : "", format_bytes(bytes),
             space ? fmt::format(", {} free on its disk", format_bytes(*space)) : "");
  if (space && bytes > *space)
    refuse(fmt::format("{}: the output has {}, and its disk has {} free; free some space, or name another disk",
                       target.path, format_bytes(bytes), format_bytes(*space)));
  if (free > 0 && memory > static_cast<double>(free))
    refuse(
        fmt::format("{}: the export takes {} of memory or more, and {} are free; use a machine with more, or "
                    "--form tt",
                    values.positionals()[0], format_bytes(static_cast<std::uint64_t>(memory)), format_bytes(free)));
}

}  // namespace comera::tools
