// The plan of a layer: the future form of a candidate. Rules of --layer change it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/compress/plan/candidates.h"

namespace comera::compress {

enum class PlannedForm : std::uint8_t { keep_dense, automatic, tt, ttm, lowrank, grid };
const char* name_of(PlannedForm form);  // dense, auto, tt, ttm, lowrank, grid
std::optional<PlannedForm> form_named(std::string_view word);
bool has_modes(PlannedForm form);                                // tt and ttm
std::optional<quant::Grid> grid_of_bits(std::string_view bits);  // "8": q8_0, "4": q4_0, "3": q3_0, "2": q2_0

struct LayerPlan {
  std::string name;  // of the weight, without ".weight"
  PlannedForm form = PlannedForm::keep_dense;
  // tt and ttm: kind, modes and ranks; empty ranks: as large as the middle bond allows. Every form: the identity block
  // in the last core, if the form allows one, and the number of exact rows of a table.
  tt::Layout layout = {.gauge = true};
  // grid: numbers on this grid, with a low-rank correction of rank `rank`, perhaps 0.
  quant::Grid grid = quant::Grid::q4_0;
  bool fixed_grid = false;  // no other grid of --bits may take its place
  int sweeps = 4;           // grid: passes of coordinate descent after GPTQ
  // The cores, of a grid those of the correction, are numbers on this grid; nothing: in the type of the dense weight,
  // of a correction in half precision.
  std::optional<quant::Grid> cores = {};
  std::int64_t rank = 0;    // middle bond; ttm: every inner bond; auto: the pair that has the byte budget of the layer
  std::string reason = {};  // the reason why it stays dense
  bool exact_of_all = false;  // the number of exact rows is that of all tables (--exact-rows), not one for this table
};

// --layer 'glob=rank:16', 'glob=form:dense', 'glob=form:tt;modes:24x16|384;rank:32', 'glob=gauge:off',
// 'glob=exact:1024', 'glob=bits:8', 'glob=bits:3;group:128', 'glob=cores:8'.
struct LayerRule {
  std::string text, pattern;
  std::optional<PlannedForm> form;
  std::optional<std::int64_t> rank, exact, group;
  io::FileShape in_modes, out_modes;
  std::optional<bool> gauge;
  std::optional<quant::Grid> grid;
  std::optional<std::optional<quant::Grid>> cores;  // nothing inside: cores:16, floating-point numbers
};
LayerRule parse_layer_rule(const std::string& text);

// Sets kind and modes of a plan of form tt or ttm.
void set_modes(LayerPlan& plan, const tt::Sizes& in, const tt::Sizes& out);
// The chain of a plan as the file describes it: modes and largest ranks. Not for dense and automatic.
io::ChainSpec chain_of(const LayerPlan& plan, const Candidate& candidate);
// InputError if `plan` does not fit the candidate. The message starts with `where`.
void check_layer(const LayerPlan& plan, const Candidate& candidate, const std::string& where);
// Linear layer: the largest rank at which two thin products are not slower than the dense one. Table: the largest rank
// at which the pair is not larger than the table.
std::int64_t break_even_rank(const Candidate& candidate);
// Bytes of the tensors of the planned chain, order, gauge and exact rows included. automatic: bytes of the pair of that
// rank. dense: the dense bytes.
std::uint64_t planned_bytes(const LayerPlan& plan, const Candidate& candidate);
// Bytes of a chain as the file stores it.
std::uint64_t chain_bytes(const io::ChainSpec& chain, io::StoredType type);
// The tensors of a chain in the order in which they are written.
std::vector<io::TensorToWrite> tensors_of(const io::ChainSpec& chain, io::StoredType type);
// The type of the cores of a weight that was stored as `dense`, if they are not on a grid: corrections of a grid have
// half precision.
io::StoredType core_type(const io::ChainSpec& chain, io::StoredType dense);

}  // namespace comera::compress
