// The batch-independent part of all TT linear layers: merges cores into left and right factors when a step begins, and
// splits the gradients of the factors into gradients of the cores when it ends.
#pragma once

#include <vector>

#include "lib/layers/training/model.h"

namespace comera::kernels {
struct TtMatrix;
}  // namespace comera::kernels

namespace comera::layers {

class TtMerger {
 public:
  // The left and right factor of one weight: a slice of a wide left factor (slab item, first column, width) and a right
  // factor.
  struct Place {
    int left = -1, right = -1;      // items of the factors' slab
    int d_left = -1, d_right = -1;  // items of the step gradients' slab
    std::int64_t offset = 0, width = 0;
  };

  TtMerger(const std::vector<ChainParameters>& chains, plan::Slab& factors, plan::Slab& step_gradients);
  ~TtMerger();

  void add(std::size_t chain, const Place& place);
  // Lists orders and gauges. They are inputs of prepare() and finish().
  void declare(plan::Inputs& inputs);
  void prepare(Walk& walk, double threshold);
  void finish(Walk& walk, Sink& sink, double threshold);

 private:
  struct Item {
    std::size_t chain;
    Place place;
  };
  void describe(std::size_t index, double threshold);

  const std::vector<ChainParameters>& chains_;
  plan::Slab& factors_;
  plan::Slab& step_gradients_;
  std::vector<Item> items_;
  std::vector<kernels::TtMatrix> matrices_;  // as many as items, filled again in each call
  std::vector<Tensor> open_;                 // gradients opened in the sink during finish
  // Inputs, by item.
  struct Indices {
    Tensor order, gauge;
  };
  std::vector<Indices> indices_;
};

}  // namespace comera::layers
