// Learning rates of cores by their place in a tensor train.
#pragma once

#include <cstddef>

#include "lib/tt/layout.h"

namespace comera::layers {

// A step of AdamW moves every entry of a core by about its rate. A core is a matrix [a x b] of the contraction, and the
// signs of a gradient of rank 1 move it by a matrix of norm rate sqrt(a b); with initial entries of deviation d its own
// norm is d (sqrt(a) + sqrt(b)). So the core, and the weight with it, moves by rate / x of its norm, where
//     x = d (1/sqrt(a) + 1/sqrt(b)).
// Rates in proportion to x / sqrt(K), with K cores, move every core by the same share, and the weight by the same share
// whatever its modes, ranks and order are: the movements of K cores add up like independent ones (measured: with x / K
// the best rate of low-rank pairs is half of that of six cores, docs/results/training.md). This is the spectral
// condition of Yang, Simon and Bernstein (arXiv 2310.17813) for each factor, as Qiu et al. (arXiv 2406.06248) apply
// mu-P to structured weights, in the gauge of CoMERA's initial values.
//
// Returns the factor of --lr-cores for this core. In a 256 x 256 layer (modes 8 8 4 4 8 8, rank 16) the movements of
// all cores have the same sum as with one rate for all cores: the default rates were found with such layers. Tables of
// embeddings keep one rate for all cores (1): an entry of a table is looked up, not multiplied by many inputs, and the
// factors that follow from the same rule gain nothing there (docs/results/training.md). `weight_deviation` is that of
// the initial entries of the dense weight.
double structured_rate(const tt::Layout& layout, std::size_t core, double weight_deviation);

// The deviation of a core's initial entries with which those of the weight have `weight_deviation` (CoMERA's).
double core_deviation(const tt::Layout& layout, std::size_t core, double weight_deviation);

}  // namespace comera::layers
