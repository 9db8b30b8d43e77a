// The stage `planned`: form and modes of each layer by the options and rules, before ranks are allotted.
#pragma once

#include "lib/compress/settings.h"

namespace comera::compress {

// InputError, which begins with `where`, if the program that the result is for cannot store this form.
void require_storable(const LayerPlan& plan, const Candidate& candidate, MadeFor made_for, const std::string& where);

// Fills `first` of every job. InputError: a rule that matches no weight or does not fit its weight.
void plan_layers(std::vector<LayerJob>& jobs, const Settings& settings, bool calibrated);

}  // namespace comera::compress
