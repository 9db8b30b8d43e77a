// The choice of --activations: how the values that the backward reads are kept, for all layers or by name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/layers/activations/projected.h"

namespace comera::layers {

struct Activations {
  struct Rule {
    std::string glob;    // of Hugging Face layer names; "": all layers
    std::string policy;  // keep, compact, int8, int4, int8-stochastic, int4-stochastic
  };
  Recompute recompute = Recompute::none;
  // Of the rules that match a layer, the last of each kind counts: projections (compact) for inputs of linear layers,
  // integer copies for all other values. keep ends both. Without a match a value is kept as it is.
  std::vector<Rule> rules;
  ProjectedSettings projected = {};

  bool projects() const;
};

// The words of --activations that change the result: all but those of recomputation, and these too with compact.
std::vector<std::string> words_of_copies(const std::vector<std::string>& words);

// Parses words "POLICY" and "GLOB=POLICY". keep, cheap and block choose what is computed again, for all layers. Throws
// InputError for an unknown policy, and for recomputation by name.
Activations parse_activations(const std::vector<std::string>& words);

// The keeper of these rules. It is used by one engine at a time.
class RuledKeeper final : public Keeper {
 public:
  explicit RuledKeeper(const Activations& activations);

  void declare(Parameter& weight, const std::string& layer) override;
  void begin(const kernels::StepScalars* scalars) override;
  void rebuild(Producer* producer, Use use, Slot& slot) override;
  void keep(Walk& walk, const Tensor& tensor, Use use, Slot& slot) override;
  void check_rules() const override;

 private:
  struct Choice {
    Activations::Rule rule;
    std::shared_ptr<Keeper> keeper;  // null: as they are
    bool projects = false;           // compact
    bool matched = false;
  };
  // The keeper of values of a layer; `product`: of inputs of linear layers, which may be projected.
  Keeper& keeper_of(const std::string& layer, bool product);

  std::vector<Choice> choices_;
  std::vector<std::string> layers_;  // seen so far
};

}  // namespace comera::layers
