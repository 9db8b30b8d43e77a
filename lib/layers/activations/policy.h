// The choice of --activations: how the values that the backward reads are kept, for all layers or by name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/layers/training/saved.h"

namespace comera::layers {

struct Activations {
  struct Rule {
    std::string glob;    // of Hugging Face layer names; "": all layers
    std::string policy;  // keep, int8, int4, int8-stochastic, int4-stochastic
  };
  Recompute recompute = Recompute::none;
  std::vector<Rule> rules;  // the last one that matches a layer counts; without a match a value is kept as it is
};

// The words of --activations that change the result: all but those of recomputation.
std::vector<std::string> words_of_copies(const std::vector<std::string>& words);

// Parses words "POLICY" and "GLOB=POLICY". keep, cheap and block choose what is computed again, for all layers. Throws
// InputError for an unknown policy, and for recomputation by name.
Activations parse_activations(const std::vector<std::string>& words);

// The keeper of these rules. It is used by one engine at a time.
class RuledKeeper final : public Keeper {
 public:
  explicit RuledKeeper(const Activations& activations);

  void begin(const kernels::StepScalars* scalars) override;
  void keep(Walk& walk, const Tensor& tensor, Use use, Slot& slot) override;
  void check_rules() const override;

 private:
  struct Choice {
    Activations::Rule rule;
    std::shared_ptr<Keeper> keeper;
    bool matched = false;
  };
  std::vector<Choice> choices_;
  std::vector<std::string> layers_;  // seen so far
};

}  // namespace comera::layers
