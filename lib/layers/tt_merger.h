// The batch-independent part of all TT linear layers: merges cores into left and right factors when a step begins, and
// splits the gradients of the factors into gradients of the cores when it ends. Factors that are brief
// (Builder::brief_factors) are merged each time that their layer reads them, and split in its backward.
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
    int left = -1, right = -1;      // items of the factors' slab; -1: brief
    int d_left = -1, d_right = -1;  // items of the step gradients' slab
    std::int64_t offset = 0, width = 0;
  };
  // Wide left factor and right factor, or their gradients.
  struct Factors {
    Tensor left, right;
  };

  TtMerger(const std::vector<ChainParameters>& chains, plan::Slab& factors, plan::Slab& step_gradients);
  ~TtMerger();

  // Returns the number of the weight.
  std::size_t add(std::size_t chain, const Place& place);
  // Lists orders and gauges. They are inputs of prepare() and finish().
  void declare(plan::Inputs& inputs);
  // Both run over all factors in the slabs.
  void prepare(Walk& walk, double threshold);
  void finish(Walk& walk, Sink& sink, double threshold);
  // Both are for a weight with brief factors.
  void merge(Walk& walk, std::size_t weight, double threshold, const Factors& factors);
  void split(Walk& walk, Sink& sink, std::size_t weight, double threshold, const Factors& gradients);

 private:
  struct Item {
    std::size_t chain;
    Place place;
  };
  void describe(std::size_t index, double threshold, const Factors& factors, const Factors& gradients,
                kernels::TtMatrix& matrix) const;
  void describe_stored(double threshold);
  void open(Walk& walk, Sink& sink, std::size_t index, kernels::TtMatrix& matrix);
  std::size_t close(Walk& walk, Sink& sink, std::size_t index, std::size_t next);

  const std::vector<ChainParameters>& chains_;
  plan::Slab& factors_;
  plan::Slab& step_gradients_;
  std::vector<Item> items_;
  std::vector<std::size_t> stored_;          // items in the slabs
  std::vector<kernels::TtMatrix> matrices_;  // of those, filled again in each call
  std::vector<Tensor> open_;                 // gradients opened in the sink during finish
  // Inputs, by item.
  struct Indices {
    Tensor order, gauge;
  };
  std::vector<Indices> indices_;
};

}  // namespace comera::layers
