#include "lib/layers/saved.h"

#include <utility>

#include "lib/core/error.h"

namespace comera::layers {

Tensor Saved::value(Walk& walk) {
  if (producer_) return std::exchange(producer_, nullptr)->rebuild(walk);
  COMERA_CHECK(!kept_.empty());
  return std::exchange(kept_, Tensor{});
}

void Saved::product(Walk& walk, const Tensor& g, std::int64_t ldg, const Tensor& result, std::int64_t ld_result,
                    std::int64_t in, std::int64_t out) {
  Tensor x = value(walk);
  kernels::Product product{x.elements() / in, in, out, x.data, in, g.data, ldg, result.data, ld_result};
  walk.run(walk.backend().product, product);
  walk.drop(x);
}

SavePolicy SavePolicy::discarding() const {
  SavePolicy policy = *this;
  policy.discards_ = true;
  return policy;
}

SavePolicy SavePolicy::inside_block() const {
  SavePolicy policy = *this;
  if (recompute_ == Recompute::block) policy.recompute_ = Recompute::none;
  return policy;
}

Saved SavePolicy::save(Walk& walk, const Value& value, Use) const {
  if (!saves()) return {};
  if (value.producer && recompute_ != Recompute::none) return {Tensor{}, value.producer};
  return {walk.keep(value.tensor), nullptr};
}

}  // namespace comera::layers
