#include "lib/layers/training/builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace comera::layers {
namespace {

Shape core_shape(const TensorTrain& train, std::size_t k) {
  const tt::Sizes sizes = train.layout.core_shape(k);
  if (sizes.size() == 3) return {sizes[0], sizes[1], sizes[2]};
  return {sizes[0], sizes[1], sizes[2], sizes[3]};
}

Parameter core(const TensorTrain& train, std::size_t k, double deviation) {
  Parameter parameter;
  parameter.name = fmt::format("{}.tt.{}", train.name, k);
  parameter.role = Role::core;
  parameter.shape = core_shape(train, k);
  const double order = static_cast<double>(train.layout.cores());
  parameter.init = {Init::Kind::normal,
                    std::pow(deviation, 1 / order) / std::sqrt(static_cast<double>(train.layout.ranks[k + 1]))};
  parameter.decay = true;
  parameter.from_halves = true;
  return parameter;
}

Parameter diagonal(const TensorTrain& train, std::size_t k) {
  Parameter parameter;
  parameter.name = fmt::format("{}.rank.{}", train.name, k);
  parameter.role = Role::diagonal;
  parameter.shape = {train.layout.ranks[k + 1]};
  parameter.init = {Init::Kind::constant, 1};
  parameter.from_halves = true;
  return parameter;
}

}  // namespace

std::size_t add_tensor_train(Builder& builder, TensorTrain train, double deviation) {
  builder.parameters_dense += train.rows * train.columns;
  if (!train.layout.empty()) {
    for (std::size_t k = 0; k < train.layout.cores(); ++k)
      train.cores.push_back(builder.parameters.add(core(train, k, deviation)));
    for (std::size_t k = 0; !train.folded && k + 1 < train.layout.cores(); ++k)
      train.diagonals.push_back(builder.parameters.add(diagonal(train, k)));
  }
  builder.trains.push_back(std::move(train));
  return builder.trains.size() - 1;
}

}  // namespace comera::layers
