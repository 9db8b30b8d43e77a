#include "lib/layers/training/saved.h"

#include "kernels/linear.h"
#include "lib/core/error.h"

namespace comera::layers {
namespace {

class Exact final : public Saved {
 public:
  Tensor read(Walk& walk) override { return walk.keep(kept); }
  void release(Walk& walk) override { walk.drop(kept); }
  Tensor kept;
};

class ExactKeeper final : public Keeper {
 public:
  void keep(Walk& walk, const Tensor& tensor, Use, Slot& slot) override {
    object_in<Exact>(slot).kept = walk.keep(tensor);
  }
};

class Rebuilt final : public Saved {
 public:
  Tensor read(Walk& walk) override { return producer->rebuild(walk); }
  void release(Walk&) override {}
  bool multiplies(const Walk& walk, std::int64_t, std::int64_t out) const override {
    return producer->multiplies(walk, out);
  }
  void product(Walk& walk, const Tensor& g, std::int64_t ldg, const Tensor& result, std::int64_t ld_result,
               std::int64_t in, std::int64_t out) override {
    if (!producer->multiplies(walk, out)) return Saved::product(walk, g, ldg, result, ld_result, in, out);
    producer->product(walk, g, ldg, result, ld_result, out);
  }
  Producer* producer = nullptr;
};

}  // namespace

void Producer::product(Walk&, const Tensor&, std::int64_t, const Tensor&, std::int64_t, std::int64_t) {
  COMERA_CHECK(!"a producer without products");
}

Tensor Saved::value(Walk& walk) {
  Tensor numbers = read(walk);
  release(walk);
  return numbers;
}

void Saved::product(Walk& walk, const Tensor& g, std::int64_t ldg, const Tensor& result, std::int64_t ld_result,
                    std::int64_t in, std::int64_t out) {
  Tensor x = read(walk);
  kernels::Product product{.tokens = x.elements() / in,
                           .in = in,
                           .out = out,
                           .x = x.data,
                           .ldx = in,
                           .g = g.data,
                           .ldg = ldg,
                           .result = result.data,
                           .ld_result = ld_result};
  walk.run(walk.backend().product, product);
  walk.drop(x);
}

void Keeper::rebuild(Producer* producer, Use, Slot& slot) { object_in<Rebuilt>(slot).producer = producer; }
void Saved::multiply_by_slope(Walk&, const Tensor&) { COMERA_CHECK(!"a saved value without slopes"); }

Keeper& exact_keeper() {
  static ExactKeeper keeper;
  return keeper;
}

SavePolicy SavePolicy::discarding() const {
  SavePolicy policy = *this;
  policy.discards_ = true;
  return policy;
}

SavePolicy SavePolicy::inside_block(bool runs_again) const {
  SavePolicy policy = *this;
  policy.inside_ = runs_again;
  if (recompute_ == Recompute::block) policy.recompute_ = Recompute::none;
  return policy;
}

Recompute SavePolicy::recompute(const std::string& layer) const {
  return inside_ ? Recompute::none : keeper_->recompute(layer, recompute_);
}

bool SavePolicy::runs_again(const std::string& block) const {
  return saves() && keeper_->runs_again(block, recompute_);
}

void SavePolicy::save(Walk& walk, const Value& value, Use use, Slot& slot) const {
  if (!saves()) return;
  if (value.producer && recompute(slot.layer) != Recompute::none) return keeper_->rebuild(value.producer, use, slot);
  // An estimate beside the numbers would save nothing, but a gradient in a subspace needs it.
  const bool in_subspace = slot.weight && slot.weight->subspace;
  keeper_->keep(walk, value.tensor, value.kept && !in_subspace ? Use::value : use, slot);
}

void SavePolicy::take(Walk& walk, Tensor& tensor, Use use, Slot& slot) const {
  if (saves()) keeper_->keep(walk, tensor, use, slot);
  walk.drop(tensor);
}

}  // namespace comera::layers
