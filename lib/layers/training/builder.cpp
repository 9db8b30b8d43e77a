#include "lib/layers/training/builder.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/layers/training/structured_rate.h"

namespace comera::layers {
namespace {

Shape core_shape(const ChainParameters& chain, std::size_t k) {
  const tt::Sizes sizes = chain.layout.core_shape(k);
  if (sizes.size() == 3) return {sizes[0], sizes[1], sizes[2]};
  return {sizes[0], sizes[1], sizes[2], sizes[3]};
}

Parameter core(const ChainParameters& chain, std::size_t k, double deviation) {
  Parameter parameter;
  parameter.name = fmt::format("{}.tt.{}", chain.name, k);
  parameter.role = Role::core;
  parameter.shape = core_shape(chain, k);
  parameter.init = {Init::Distribution::normal, core_deviation(chain.layout, k, deviation)};
  // By the initial ranks, so that the rates stay while ranks fall.
  tt::Layout whole = chain.layout;
  whole.ranks = chain.initial_ranks;
  parameter.structured_rate = structured_rate(whole, k, deviation);
  parameter.of_table = chain.layout.kind == tt::Kind::ttm;
  parameter.decay = true;
  return parameter;
}

Parameter diagonal(const ChainParameters& chain, std::size_t k) {
  Parameter parameter;
  parameter.name = fmt::format("{}.rank.{}", chain.name, k);
  parameter.role = Role::diagonal;
  parameter.shape = {chain.layout.ranks[k + 1]};
  parameter.init = {Init::Distribution::constant, 1};
  return parameter;
}

}  // namespace

std::size_t add_chain(Builder& builder, ChainParameters chain, double deviation) {
  builder.parameters_dense += chain.rows * chain.columns;
  const auto add = [&](Parameter parameter) {
    parameter.from_factors = !builder.brief_factors;
    return builder.parameters.add(std::move(parameter));
  };
  if (!chain.layout.empty()) {
    for (std::size_t k = 0; k < chain.layout.cores(); ++k) chain.cores.push_back(add(core(chain, k, deviation)));
    for (std::size_t k = 0; !chain.folded && k + 1 < chain.layout.cores(); ++k)
      chain.diagonals.push_back(add(diagonal(chain, k)));
  }
  builder.chains.push_back(std::move(chain));
  return builder.chains.size() - 1;
}

}  // namespace comera::layers
