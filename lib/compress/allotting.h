// Turns the loss curves of all layers into plans: chooses the rank of each layer.
#pragma once

#include <vector>

#include "lib/compress/plan.h"
#include "lib/tt/allocate.h"

namespace comera::compress {

struct Settings;

// Form, modes, gauge and rule settings of each layer before ranks are allotted. Rank 0: the rank is allotted later.
// Otherwise a rule sets it.
std::vector<LayerPlan> first_plans(const std::vector<Candidate>& candidates, const Settings& settings, bool calibrated);

// Linear layer: the largest rank at which two thin products are not slower than the dense one. Table: the largest rank
// at which the pair is not larger than the table.
std::int64_t break_even_rank(const Candidate& candidate);

// The bytes of the layer at every rank of `losses`, and the ranks that are allowed.
tt::LossCurve curve_of(const LayerPlan& plan, const Candidate& candidate, std::vector<double> losses,
                       bool allow_slower);

// Fills rank, form and reason of a layer from its allotment.
void settle(LayerPlan& plan, const Candidate& candidate, const tt::LossCurve& curve, const tt::Allotment& allotment);

}  // namespace comera::compress
