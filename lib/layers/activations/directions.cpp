#include "lib/layers/activations/directions.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "kernels/cast.h"
#include "kernels/direction.h"
#include "kernels/elementwise.h"
#include "kernels/linear.h"
#include "lib/core/error.h"
#include "lib/layers/training/direction.h"

namespace comera::layers {
namespace {

// The products z [K, G] of an x [K, G * M] with a vector.
struct Products {
  const Direction* direction = nullptr;
  Tensor z;
};

class Directed final : public Saved {
 public:
  Tensor read(Walk&) override { COMERA_CHECK(!"the numbers of a value that is kept as products with a vector"); }
  void release(Walk& walk) override { walk.drop(kept.z); }
  bool estimates() const override { return true; }

  // v (z^T G), group by group.
  void product(Walk& walk, const Tensor& g, std::int64_t ldg, const Tensor& result, std::int64_t ld_result,
               std::int64_t in, std::int64_t out) override {
    const std::int64_t groups = kept.z.shape[1];
    COMERA_CHECK(groups * kept.direction->size == in);
    Tensor t = walk.make_statistic("product", {groups, out});
    walk.run(walk.backend().fill, kernels::Fill{t.data, t.bytes()});
    walk.run(walk.backend().product, kernels::Product{.tokens = kept.z.shape[0],
                                                      .in = groups,
                                                      .out = out,
                                                      .x = kept.z.data,
                                                      .ldx = groups,
                                                      .g = g.data,
                                                      .ldg = ldg,
                                                      .result = t.data,
                                                      .ld_result = out});
    walk.run(walk.backend().direction_lift, kernels::DirectionLift{.groups = groups,
                                                                   .size = kept.direction->size,
                                                                   .out = out,
                                                                   .scale = scale,
                                                                   .v = kept.direction->vector.data,
                                                                   .t = t.data,
                                                                   .result = result.data,
                                                                   .ld_result = ld_result});
    walk.drop(t);
  }

  Products kept;
  double scale = 1;
};

// The vector of the first x, and the products of x with it.
Tensor multiply(Walk& walk, const Tensor& x, std::int64_t in, const Direction& direction) {
  const std::int64_t size = direction.size, groups = in / size, rows = x.elements() / size;
  const Tensor& v = direction.vector;
  walk.run(walk.backend().direction_average,
           kernels::DirectionAverage{.rows = rows, .size = size, .x = x.data, .v = v.data});
  const bool same_type = kernels::parameter_type(walk.dtype()) == walk.dtype();
  Tensor cast = same_type ? Tensor{} : walk.make("vector", {size});
  if (!same_type) {
    const kernels::CastTensor tensor{size, v.data, cast.data};
    walk.run(walk.backend().cast, kernels::Cast{&tensor, 1});
  }
  const Tensor z = walk.make("group products", {rows / groups, groups});
  walk.run(walk.backend().linear_forward, kernels::LinearForward{.tokens = rows,
                                                                 .in = size,
                                                                 .out = 1,
                                                                 .x = x.data,
                                                                 .ldx = size,
                                                                 .weight = same_type ? v.data : cast.data,
                                                                 .y = z.data,
                                                                 .ldy = 1});
  if (!same_type) walk.drop(cast);
  return z;
}

class DirectionKeeper final : public Keeper {
 public:
  DirectionKeeper(const DirectionSettings& settings, std::string rule) : settings_(settings), rule_(std::move(rule)) {}

  void declare(Parameter& weight, const std::string& layer) override {
    if (weight.place != Place::block) return;
    check_groups(layer, weight.shape[0]);
    weight.direction = std::make_shared<Direction>(Direction{.size = settings_.group});
  }

  void begin(const kernels::StepScalars*) override { made_.clear(); }

  void keep(Walk& walk, const Tensor& x, Use, Slot& slot) override {
    COMERA_CHECK(slot.weight && slot.weight->direction);
    Directed& saved = object_in<Directed>(slot);
    saved.scale = settings_.scale;
    keeps_ = true;
    for (const Made& made : made_)
      if (made.tensor == x.id) {
        saved.kept = made.products;
        walk.keep(saved.kept.z);
        return;
      }
    const Direction& direction = *slot.weight->direction;
    saved.kept = {&direction, multiply(walk, x, slot.weight->shape[0], direction)};
    made_.push_back({x.id, saved.kept});
  }

  void check_rules() const override {
    if (!keeps_)
      fail_input(
          "[train] --activations {}: it keeps no value: it is for inputs of dense linear layers in blocks that no "
          "other layer keeps and that are not computed again; leave it out, or use keep in place of cheap or share",
          rule_);
  }

 private:
  struct Made {
    int tensor;
    Products products;
  };

  void check_groups(const std::string& layer, std::int64_t in) const {
    if (in % settings_.group == 0) return;
    std::int64_t below = std::min(settings_.group, in), above = std::min(settings_.group + 1, in);
    while (in % below != 0) --below;
    while (in % above != 0) ++above;
    const std::string valid =
        below < 2 || below == above ? fmt::format("{}", above) : fmt::format("{} or {}", below, above);
    fail_input("[train] --velora-group {}: {} has {} inputs, which it does not divide; use {}", settings_.group, layer,
               in, valid);
  }

  DirectionSettings settings_;
  std::string rule_;
  std::vector<Made> made_;  // of the current forward
  bool keeps_ = false;
};

}  // namespace

std::unique_ptr<Keeper> make_direction_keeper(const DirectionSettings& settings, const std::string& rule) {
  return std::make_unique<DirectionKeeper>(settings, rule);
}

}  // namespace comera::layers
