// Rotary positions of queries and keys: one table of cosines and sines for all layers of a pass.
#pragma once

#include "kernels/rotary.h"
#include "lib/layers/training/pass.h"

namespace comera::layers {

struct RotaryTables {
  Tensor cosines, sines;  // [P, D/2]
};

class Rotary {
 public:
  Rotary(std::int64_t head_size, const kernels::RotaryAngles& angles) : head_size_(head_size), angles_(angles) {}

  // Fills tables of the given shape, allocated by any owner.
  void fill(Walk& walk, const RotaryTables& tables) const;
  // Begins a pass: positions i32 [K], each below `count`; `ready`: tables from fill(); empty: they are made for this
  // pass.
  void begin(Pass& pass, const Tensor& positions, std::int64_t count, const RotaryTables& ready);
  void end(Walk& walk);

  // Rotates x [K, H D] in place. `back`: converts the gradient of the rotated x to that of x.
  void turn(Pass& pass, const Tensor& x, bool back) const;
  // The same for the first `heads` heads of each row of x.
  void turn_first(Pass& pass, const Tensor& x, std::int64_t heads, bool back) const;

 private:
  std::int64_t head_size_;
  kernels::RotaryAngles angles_;
  Tensor positions_;
  RotaryTables tables_;
};

}  // namespace comera::layers
