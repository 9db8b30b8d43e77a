// Learning rates of the cores of a model that was read, by the norms of its own cores.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lib/engine/weights.h"

namespace comera::train {

// Factors of --lr-cores by the name of the chain, one per core.
using CoreRates = std::map<std::string, std::vector<double>>;

// A step of AdamW with rate f moves a dense weight [M x N] by at most f sqrt(M N) in the spectral norm, if the signs of
// its gradient are those of a matrix of rank 1. A core with n entries and the rate f x then moves the weight by at most
// f x sqrt(n) e, where e bounds what a change of the core does to the weight (tt::surrounding_norms). With
//     x = sqrt(M N / n) / (e sqrt(K))
// for each of K cores, whose movements add up like independent ones, the chain moves at most as far as the dense weight
// would: --lr-cores then is a rate of dense weights, whatever the form is. It is the condition of structured_rate.h
// with the norms that the cores have. After `tensorize` they are far from those of random cores: beside an identity
// block the coefficients of a last core reach norms of 15, and one rate moves the weight through the other core that
// many times as far (docs/results/finetuning.md). x is at most 10, for chains whose product is nearly zero. Tables and
// chains with an activation between their factors keep the factor that they have without it.
CoreRates stored_core_rates(const engine::Weights& weights);

// Sets Parameter::structured_rate of the chains that are named. A model that lost ranks keeps its factors.
void set_core_rates(layers::Model& model, const CoreRates& rates);

}  // namespace comera::train
