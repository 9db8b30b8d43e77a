// A learned bias of attention scores by head and by distance of key and query, one table for all layers of a model
// (Raffel et al. 2020, arXiv 1910.10683, section 2.1; MPNet: Song et al. 2020, arXiv 2004.09297).
#pragma once

#include <vector>

#include "lib/layers/training/builder.h"

namespace comera::kernels {
struct AttentionShape;
}  // namespace comera::kernels

namespace comera::layers {

class Sink;

class RelativeBias {
 public:
  static constexpr std::int64_t rows = 32;
  // The row for a key that comes `distance` tokens after its query: half of the rows are for keys up to the query, half
  // for later ones. In a half, distances below 8 have a row each, further ones share rows that begin at 8 sqrt(2)^k.
  static std::int32_t row_of(std::int64_t distance);

  // Parameter `<name>.weight` [32, heads]. A fixed one is not trained.
  RelativeBias(Builder& builder, const std::string& name, std::int64_t heads, bool fixed);

  // Lists the rows of all distances in sequences of this length.
  void declare(std::int64_t length, plan::Inputs& inputs);
  // The backward of all layers adds to one gradient, which is opened before the first and closed after the last.
  void open(Walk& walk, Sink& sink);
  void close(Walk& walk, Sink& sink);

  void describe(const Walk& walk, kernels::AttentionShape& shape) const;
  void* gradient() const { return gradient_.data; }  // null for a fixed one

 private:
  Parameter* table_;
  std::vector<std::int32_t> row_;
  Tensor rows_;  // input
  Tensor gradient_;
};

}  // namespace comera::layers
