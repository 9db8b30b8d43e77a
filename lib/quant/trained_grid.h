// A weight on a grid whose codes and scales learn from the weight's own gradient, as in the block-wise training of
// EfficientQAT (arXiv 2407.11062).
//
// Number i of a group is d (round(u_i) - zero) + m with a real code u_i. The gradient of d and m is exact while the
// codes stay; that of u_i goes straight through the rounding, d times the gradient of the number.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/quant/rounding.h"

namespace comera::quant {

class TrainedGrid {
 public:
  // `base`: of a linear weight; `weight` [in x out]: the numbers that it approximates. A real code starts within .45 of
  // the code in `base`, towards the number of the weight.
  TrainedGrid(const Quantised& base, std::span<const float> weight);

  Grid grid() const { return grid_; }
  // One step of AdamW without decay. `gradient` of the weight [in x out]; `rate`: the largest step of a code, and of a
  // scale relative to the root mean square of all at the start; `step`: from 0.
  void step(std::span<const float> gradient, double rate, std::int64_t step);
  // Bytes of memory of such a weight once it has made a step.
  static std::uint64_t bytes(Grid grid, std::int64_t in, std::int64_t out);
  // The present numbers [in x out].
  void expand(std::span<float> weight) const;
  // Scales become numbers of half precision, as they are stored.
  void round();
  Quantised packed() const;

 private:
  struct Trained {
    std::vector<float> values, moment1, moment2;
    double size = 1;   // of which a rate is a share
    void start();      // moments of zero, in the first step
    void take_size();  // the root mean square of the values
  };

  std::int64_t groups() const;  // of inputs
  void step_group(std::span<const float> gradient, double rate, std::int64_t step, std::int64_t number);

  Grid grid_;
  std::int64_t in_, out_;
  Trained codes_;           // [in x out]
  Trained scales_, least_;  // [groups x out]
};

}  // namespace comera::quant
