// Registers the parameters, step-long tensors and tensor trains of layers while a model is built.
#pragma once

#include "lib/layers/training/model.h"
#include "lib/layers/tt_merger.h"

namespace comera::layers {

struct Builder {
  DType dtype;  // activation dtype
  Parameters& parameters;
  std::vector<ChainParameters>& chains;
  plan::Slab& factors;
  plan::Slab& step_gradients;
  TtMerger& merger;
  CastWeights& cast_weights;
  const double& threshold;         // threshold of the model
  std::int64_t& parameters_dense;  // sum over the layers
  std::uint32_t next_site = 0;     // dropout sites are numbered in the order of building
  // Merged factors of linear layers, and their gradients, are in memory while their layer runs, and not for the step:
  // less memory, and cores are merged in each pass. Gradients of cores are then finished in the backward.
  bool brief_factors = false;

  std::uint32_t dropout_site() { return next_site++; }
  // Adds a parameter that is not part of a tensor train. It counts with the same size in the dense model.
  Parameter* add(Parameter parameter) {
    parameters_dense += parameter.shape.elements();
    return parameters.add(std::move(parameter));
  }
};

// Adds cores and diagonals of a chain as parameters `<name>.tt.<k>` and `<name>.rank.<k>` and registers the chain as a
// tensor train. A chain with an empty bond adds no parameters, a folded one no diagonals. `deviation` is that of an
// entry of the dense weight: every core starts with standard deviation deviation^(1/cores) / sqrt(right rank),
// diagonals at 1 (CoMERA's initialisation). Returns the index of the train.
std::size_t add_chain(Builder& builder, ChainParameters chain, double deviation);

}  // namespace comera::layers
