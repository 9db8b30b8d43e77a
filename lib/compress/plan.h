// The plan: the future form of every candidate, as a file that people may edit (--dump-plan, --plan).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/compress/candidates.h"

namespace comera::compress {

enum class PlannedForm : std::uint8_t { keep_dense, automatic, tt, ttm, lowrank };
const char* name_of(PlannedForm form);  // dense, auto, tt, ttm, lowrank

struct LayerPlan {
  std::string name;  // of the weight, without ".weight"
  PlannedForm form = PlannedForm::keep_dense;
  io::FileShape in_modes, out_modes;  // tt and ttm (row modes, column modes)
  std::int64_t rank =
      0;              // of the middle bond (ttm: of every inner bond); auto: of the pair whose bytes the layer may have
  bool gauge = true;  // an identity block in the last core, where the form allows one
  std::string reason = {};  // why it stays dense
  std::int64_t exact = 0;   // of a table: so many of its hottest rows stay as they are
  io::FileShape ranks =
      {};  // tt and ttm: of every bond, both ends included; empty: the others as large as the middle one leaves them
};

struct Plan {
  std::vector<LayerPlan> layers;  // in the order of the candidates
  double ratio = 0;               // of the whole weights file, as asked for; 0: not asked
};

io::Json to_json(const Plan& plan, const std::vector<Candidate>& candidates);
// InputError that names `file` and the place: unknown keys, a layer that the model has not or that is there twice,
// modes that do not multiply to its size, a rank beyond the possible, ranks of single bonds that do not fit together.
// Candidates that the file leaves out stay dense.
Plan parse_plan(const std::string& text, const std::string& file, const std::vector<Candidate>& candidates);

// --layer 'glob=rank:16', 'glob=form:dense', 'glob=form:tt;modes:24x16|384;rank:32', 'glob=gauge:off',
// 'glob=exact:1024'.
struct LayerRule {
  std::string text, pattern;
  std::optional<PlannedForm> form;
  std::optional<std::int64_t> rank, exact;
  io::FileShape in_modes, out_modes;
  std::optional<bool> gauge;
};
LayerRule parse_layer_rule(const std::string& text);

// The chain that a plan makes, as the file describes it: modes and the largest ranks. Not for dense and automatic.
io::ChainSpec chain_of(const LayerPlan& plan, const Candidate& candidate);
// InputError where `plan` cannot be made of the candidate; `where` opens the message.
void check_layer(const LayerPlan& plan, const Candidate& candidate, const std::string& where);
// Bytes of the tensors of that chain (order, gauge and exact rows included); automatic: of the pair of that rank;
// dense: the dense bytes.
std::uint64_t planned_bytes(const LayerPlan& plan, const Candidate& candidate);
// Bytes of a chain as the file stores it.
std::uint64_t chain_bytes(const io::ChainSpec& chain, io::StoredType type);
// The tensors of a chain as they are written.
std::vector<io::TensorToWrite> tensors_of(const io::ChainSpec& chain, io::StoredType type);

}  // namespace comera::compress
