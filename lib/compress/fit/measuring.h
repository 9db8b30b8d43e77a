// The stage `measured`: the loss of each layer at each rank, and the effect of that loss on the model.
#pragma once

#include "lib/compress/settings.h"

namespace comera::compress {

// Fills curve and effect of every job that no rule keeps dense. Memory holds one layer at a time; of weights on grids
// one per thread, unless they have more than 2,048 inputs or 2^26 numbers.
void measure_layers(std::vector<LayerJob>& jobs, const Request& request);

// True if the curves are those of spectra. Without spectra all layers have the same curve: the error falls linearly
// with the rank.
bool uses_spectra(const std::vector<LayerJob>& jobs, const Request& request);

}  // namespace comera::compress
