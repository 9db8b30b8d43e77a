// Low-rank corrections of weights on grids, as programs with LoRA adapters apply them beside the base.
#pragma once

#include <optional>

#include "lib/export/chains.h"

namespace comera::exporting {

struct Correction {
  Matrix a, b;  // a [R, in], b [out, R]: the weight [out, in] is its base and b a
};

// False for weights without a base, and for those on a grid alone.
bool has_correction(const io::ChainSpec& chain);
// True for a correction of a linear weight; false for that of a table.
bool is_linear_correction(const io::ChainSpec& chain);
std::int64_t correction_rank(const io::ChainSpec& chain);
// F16 if its cores are stored so, else F32.
io::StoredType correction_type(const io::ModelFolder& folder, const io::ChainSpec& chain);
Correction read_correction(const io::ModelFolder& folder, const io::ChainSpec& chain, std::optional<double> threshold);

// The base of a weight on a grid, in the order of its dense tensor.
Matrix base_as_stored(const io::ModelFolder& folder, const io::ChainSpec& chain);

}  // namespace comera::exporting
