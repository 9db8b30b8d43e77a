#include "lib/layers/saved.h"

#include "kernels/linear.h"
#include "lib/core/error.h"

namespace comera::layers {
namespace {

class Exact final : public Saved {
 public:
  explicit Exact(Tensor kept) : kept_(kept) {}
  Tensor read(Walk& walk) override { return walk.keep(kept_); }
  void release(Walk& walk) override { walk.drop(kept_); }

 private:
  Tensor kept_;
};

class ExactKeeper final : public Keeper {
 public:
  SavedPtr keep(Walk& walk, const Tensor& tensor, Use) const override {
    return std::make_unique<Exact>(walk.keep(tensor));
  }
};

class Rebuilt final : public Saved {
 public:
  explicit Rebuilt(Producer& producer) : producer_(producer) {}
  Tensor read(Walk& walk) override { return producer_.rebuild(walk); }
  void release(Walk&) override {}

 private:
  Producer& producer_;
};

}  // namespace

Tensor Saved::value(Walk& walk) {
  Tensor numbers = read(walk);
  release(walk);
  return numbers;
}

void Saved::product(Walk& walk, const Tensor& g, std::int64_t ldg, const Tensor& result, std::int64_t ld_result,
                    std::int64_t in, std::int64_t out) {
  Tensor x = read(walk);
  kernels::Product product{x.elements() / in, in, out, x.data, in, g.data, ldg, result.data, ld_result};
  walk.run(walk.backend().product, product);
  walk.drop(x);
}

const Keeper& exact_keeper() {
  static const ExactKeeper keeper;
  return keeper;
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

SavedPtr SavePolicy::save(Walk& walk, const Value& value, Use use) const {
  if (!saves()) return nullptr;
  if (value.producer && recompute_ != Recompute::none) return std::make_unique<Rebuilt>(*value.producer);
  return keeper_->keep(walk, value.tensor, use);
}

SavedPtr SavePolicy::take(Walk& walk, Tensor& tensor, Use use) const {
  SavedPtr saved = saves() ? keeper_->keep(walk, tensor, use) : nullptr;
  walk.drop(tensor);
  return saved;
}

}  // namespace comera::layers
