// From curves of all layers to plans: which layer gets which rank.
#pragma once

#include <vector>

#include "lib/compress/plan.h"
#include "lib/tt/allocate.h"

namespace comera::compress {

struct Settings;

// How a layer is to be stored if it is compressed at all: form, modes, gauge, and what rules say. Rank 0: to be
// allotted, else a rule gives it.
std::vector<LayerPlan> first_plans(const std::vector<Candidate>& candidates, const Settings& settings, bool calibrated);

// The rank above which two thin products take longer than the dense one, and that of a table above which the pair is
// larger.
std::int64_t break_even_rank(const Candidate& candidate);

// The cost of the layer at every rank of `losses`, and the ranks that it may have.
tt::LossCurve curve_of(const LayerPlan& plan, const Candidate& candidate, std::vector<double> losses,
                       bool allow_slower);

// Fills rank, form and reason of a layer from what it was allotted.
void settle(LayerPlan& plan, const Candidate& candidate, const tt::LossCurve& curve, const tt::Allotment& allotment);

}  // namespace comera::compress
