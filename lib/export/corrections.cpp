#include "lib/export/corrections.h"

namespace comera::exporting {

bool has_correction(const io::ChainSpec& chain) { return chain.base && !chain.layout.empty(); }

bool is_linear_correction(const io::ChainSpec& chain) { return has_correction(chain) && !chain.table(); }
std::int64_t correction_rank(const io::ChainSpec& chain) { return chain.layout.ranks[chain.layout.middle()]; }

io::StoredType correction_type(const io::ModelFolder& folder, const io::ChainSpec& chain) {
  const bool half = folder.find(chain.core_name(0))->tensor.type == io::StoredType::F16;
  return half ? io::StoredType::F16 : io::StoredType::F32;
}

Correction read_correction(const io::ModelFolder& folder, const io::ChainSpec& chain, std::optional<double> threshold) {
  const auto both = tt::factors(io::read_chain(folder, chain, threshold));
  return {tt::transposed(both.left), tt::transposed(both.right)};
}

Matrix base_as_stored(const io::ModelFolder& folder, const io::ChainSpec& chain) {
  Matrix numbers = io::read_base(folder, chain);
  return chain.table() || chain.conv1d ? numbers : tt::transposed(numbers);
}

}  // namespace comera::exporting
