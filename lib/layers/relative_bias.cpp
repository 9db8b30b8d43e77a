#include "lib/layers/relative_bias.h"

#include <algorithm>
#include <cstdlib>

#include "kernels/attention.h"
#include "lib/layers/training/sink.h"

namespace comera::layers {
namespace {

constexpr double initial_deviation = 0.02;  // that of all weights in MPNet

}  // namespace

// In whole numbers: distance^2 >= 2^k 8^2 is distance >= 8 sqrt(2)^k.
std::int32_t RelativeBias::row_of(std::int64_t distance) {
  constexpr std::int64_t half = rows / 2, single = half / 2;
  const std::int64_t far = std::abs(distance);
  std::int64_t row = std::min(far, single);
  while (row >= single && row < half - 1 && far * far >= (single * single) << (row - single + 1)) ++row;
  return static_cast<std::int32_t>(distance > 0 ? half + row : row);
}

RelativeBias::RelativeBias(Builder& builder, const std::string& name, std::int64_t heads, bool fixed) {
  Parameter table;
  table.name = name + ".weight";
  table.shape = {rows, heads};
  table.init = {Init::Distribution::normal, initial_deviation};
  table.fixed = fixed;
  table_ = builder.add(std::move(table));
}

void RelativeBias::declare(std::int64_t length, plan::Inputs& inputs) {
  row_.clear();
  for (std::int64_t distance = 1 - length; distance < length; ++distance) row_.push_back(row_of(distance));
  inputs.add(row_, rows_);
}

void RelativeBias::open(Walk& walk, Sink& sink) {
  if (!table_->fixed) gradient_ = sink.open(walk, *table_);
}

void RelativeBias::close(Walk& walk, Sink& sink) {
  if (!table_->fixed) sink.close(walk, *table_, gradient_);
}

void RelativeBias::describe(const Walk& walk, kernels::AttentionShape& shape) const {
  shape.bias = brought(walk, *table_).data;
  shape.bias_row = static_cast<const std::int32_t*>(rows_.data);
  shape.bias_rows = rows;
}

}  // namespace comera::layers
