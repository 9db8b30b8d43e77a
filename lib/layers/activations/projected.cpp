#include "lib/layers/activations/projected.h"

#include <algorithm>
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/linear.h"
#include "lib/core/error.h"
#include "lib/layers/training/subspace.h"

namespace comera::layers {
namespace {

// x P for x [K, n], of a kept z or, with a producer, of an x that is computed again.
class Projected final : public Saved {
 public:
  Tensor read(Walk&) override { COMERA_CHECK(!"the numbers of a projected value"); }
  void release(Walk& walk) override {
    if (!producer) walk.drop(z);
  }
  bool estimates() const override { return true; }

  void product(Walk& walk, const Tensor& g, std::int64_t ldg, const Tensor& result, std::int64_t ld_result,
               std::int64_t in, std::int64_t out) override {
    Tensor projected = producer ? project_again(walk) : walk.keep(z);
    if (in_subspace) {
      add_product(walk, projected, g, ldg, result, ld_result, out);
    } else {
      COMERA_CHECK(ld_result == out && in == subspace.sketch.inputs);
      Tensor t = walk.make_statistic("product", {subspace.sketch.rank, out});
      walk.run(walk.backend().fill, kernels::Fill{t.data, t.bytes()});
      add_product(walk, projected, g, ldg, t, out, out);
      lift(walk, subspace, scalars, t, result);
      walk.drop(t);
    }
    walk.drop(projected);
  }

  Subspace subspace;
  const kernels::StepScalars* scalars = nullptr;
  bool in_subspace = false;  // the result of product() is [r, out]
  Producer* producer = nullptr;
  Tensor z;

 private:
  Tensor project_again(Walk& walk) const {
    Tensor x = producer->rebuild(walk);
    const Tensor projected = project(walk, x, subspace.sketch, scalars);
    walk.drop(x);
    return projected;
  }
  static void add_product(Walk& walk, const Tensor& z, const Tensor& g, std::int64_t ldg, const Tensor& result,
                          std::int64_t ld_result, std::int64_t out) {
    walk.run(walk.backend().product, kernels::Product{.tokens = z.shape[0],
                                                      .in = z.shape[1],
                                                      .out = out,
                                                      .x = z.data,
                                                      .ldx = z.shape[1],
                                                      .g = g.data,
                                                      .ldg = ldg,
                                                      .result = result.data,
                                                      .ld_result = ld_result});
  }
};

class ProjectedKeeper final : public Keeper {
 public:
  ProjectedKeeper(const ProjectedSettings& settings, std::string rule) : settings_(settings), rule_(std::move(rule)) {}

  void declare(Parameter& weight, const std::string& layer) override {
    if (weight.place == Place::attention_output) weight.beside_subspaces = true;
    if (weight.place != Place::block || rank_of(weight.shape[0]) >= weight.shape[0]) return;
    weight.subspace =
        std::make_shared<Subspace>(Subspace{sketch_of(layer, weight.shape[0], settings_.refresh), settings_.scale});
  }

  void begin(const kernels::StepScalars* scalars) override {
    scalars_ = scalars;
    made_.clear();
  }

  void keep(Walk& walk, const Tensor& x, Use use, Slot& slot) override {
    const std::int64_t in = x.shape[x.shape.dims() - 1];
    const bool projectable = use == Use::product && slot.place == Place::block;
    narrow_ = narrow_ || (projectable && rank_of(in) >= in);
    if (!projectable || rank_of(in) >= in) return exact_keeper().keep(walk, x, use, slot);
    Projected& kept = describe(slot, in);
    kept.producer = nullptr;
    for (const Made& made : made_)
      if (made.tensor == x.id && made.sketch == kept.subspace.sketch) {
        kept.z = walk.keep(made.z);
        return;
      }
    projects_ = true;
    kept.z = project(walk, x, kept.subspace.sketch, scalars_);
    made_.push_back({x.id, kept.subspace.sketch, kept.z});
  }

  // A dense weight's gradient is in the subspace even if x is computed again.
  void rebuild(Producer* producer, Use use, Slot& slot) override {
    if (use != Use::product || !slot.weight || !slot.weight->subspace) return Keeper::rebuild(producer, use, slot);
    describe(slot, slot.weight->shape[0]).producer = producer;
    projects_ = true;
  }

  void check_rules() const override {
    if (projects_) return;
    if (narrow_)
      fail_input(
          "[train] --activations {}: no input of a linear layer is projected, because each has at most as many columns "
          "as the projection; use a smaller {}, or leave out {}",
          rule_, settings_.rank > 0 ? "--compact-rank" : "--compact-ratio", rule_);
    fail_input(
        "[train] --activations {}: no input of a linear layer is projected, because each is kept for another layer or "
        "computed again exactly; leave it out, or use keep in place of cheap or share",
        rule_);
  }

 private:
  struct Made {
    int tensor;
    kernels::Sketch sketch;
    Tensor z;
  };

  std::int64_t rank_of(std::int64_t in) const {
    if (settings_.rank > 0) return settings_.rank;
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(settings_.ratio * static_cast<double>(in)));
  }

  kernels::Sketch sketch_of(const std::string& layer, std::int64_t in, std::int64_t refresh) const {
    return {.kind = settings_.kind,
            .inputs = in,
            .rank = rank_of(in),
            .refresh = refresh,
            .site = settings_.shared ? 0 : site_of(layer)};
  }

  Projected& describe(Slot& slot, std::int64_t in) const {
    Projected& kept = object_in<Projected>(slot);
    kept.in_subspace = slot.weight && slot.weight->subspace;
    kept.subspace = kept.in_subspace ? *slot.weight->subspace : Subspace{sketch_of(slot.layer, in, 1), 1};
    kept.scalars = scalars_;
    return kept;
  }

  ProjectedSettings settings_;
  std::string rule_;
  const kernels::StepScalars* scalars_ = nullptr;
  std::vector<Made> made_;                  // of the current forward
  bool projects_ = false, narrow_ = false;  // it has projected an input; it has met one no wider than a projection
};

}  // namespace

std::unique_ptr<Keeper> make_projected_keeper(const ProjectedSettings& settings, const std::string& rule) {
  return std::make_unique<ProjectedKeeper>(settings, rule);
}

}  // namespace comera::layers
