#include "lib/layers/rotary.h"

namespace comera::layers {

void Rotary::fill(Walk& walk, const RotaryTables& tables) const {
  walk.run(walk.backend().rotary_table,
           kernels::RotaryTable{tables.cosines.shape[0], head_size_, angles_, tables.cosines.data, tables.sines.data});
}

void Rotary::begin(Pass& pass, const Tensor& positions, std::int64_t count, const RotaryTables& ready) {
  positions_ = positions;
  tables_ = ready;
  if (!ready.cosines.empty()) return;
  tables_ = {pass.walk.make_statistic("cosines", {count, head_size_ / 2}),
             pass.walk.make_statistic("sines", {count, head_size_ / 2})};
  fill(pass.walk, tables_);
}

void Rotary::end(Walk& walk) {
  walk.drop(positions_);
  walk.drop(tables_.cosines);
  walk.drop(tables_.sines);
}

void Rotary::turn(Pass& pass, const Tensor& x, bool back) const {
  turn_first(pass, x, x.elements() / (pass.tokens() * head_size_), back);
}

void Rotary::turn_first(Pass& pass, const Tensor& x, std::int64_t heads, bool back) const {
  const std::int64_t tokens = pass.tokens();
  pass.walk.run(pass.backend().rotary, kernels::Rotary{.tokens = tokens,
                                                       .heads = heads,
                                                       .head_size = head_size_,
                                                       .positions = static_cast<const std::int32_t*>(positions_.data),
                                                       .cosines = tables_.cosines.data,
                                                       .sines = tables_.sines.data,
                                                       .inverse = back,
                                                       .x = x.data,
                                                       .y = x.data,
                                                       .ld = x.elements() / tokens});
}

}  // namespace comera::layers
