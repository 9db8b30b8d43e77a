// The stage `planned`: form and modes of each layer by the options and rules, before ranks are allotted.
#pragma once

#include "lib/compress/settings.h"

namespace comera::compress {

// Fills `first` of every job. InputError: a rule that matches no weight or does not fit its weight.
void plan_layers(std::vector<LayerJob>& jobs, const Settings& settings, bool calibrated);

}  // namespace comera::compress
