// The choice of --activations: how the values that the backward reads are kept, for all layers or by name.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/layers/activations/directions.h"
#include "lib/layers/activations/offloaded.h"
#include "lib/layers/activations/projected.h"

namespace comera::layers {

struct Activations {
  struct Rule {
    std::string glob;  // of Hugging Face layer names; "": all layers
    // keep, compact, velora, act2bit, act2bit-approxbp, bf16, int8, int4, int8-stochastic, int4-stochastic, offload
    std::string policy;

    std::string word() const { return glob.empty() ? policy : glob + "=" + policy; }
  };
  Recompute recompute = Recompute::none;
  // Of the rules that match a layer the last of each kind counts: compact and velora for inputs of linear layers
  // (velora for those of dense ones alone), act2bit for slopes, copies in fewer bits for all other values. keep is of
  // every kind. Without a match a value is kept as it is.
  std::vector<Rule> rules;
  ProjectedSettings projected = {};
  DirectionSettings directions = {};
  OffloadSettings offloading = {};

  bool projects() const;
  bool offloads() const;
};

// The words of --activations that change the result: none if all values are exact, else all.
std::vector<std::string> relevant_words(const std::vector<std::string>& words);

// Parses words "POLICY" and "GLOB=POLICY". keep, cheap, share and block choose what is computed again, for all layers.
// Throws InputError for an unknown policy, and for recomputation by name.
Activations parse_activations(const std::vector<std::string>& words);

// The keeper of these rules. It is used by one engine at a time.
class RuledKeeper final : public Keeper {
 public:
  explicit RuledKeeper(const Activations& activations);

  void declare(Parameter& weight, const std::string& layer) override;
  void begin(const kernels::StepScalars* scalars) override;
  void rebuild(Producer* producer, Use use, Slot& slot) override;
  void keep(Walk& walk, const Tensor& tensor, Use use, Slot& slot) override;
  bool studies() const override;
  void studied(double forward_flops) override;
  bool allocate(const kernels::Backend& backend) override;
  void check_rules() const override;

 private:
  struct Choice {
    Activations::Rule rule;
    std::shared_ptr<Keeper> keeper = {};  // null: keep
    std::optional<Use> only = {};         // the use that the policy is for; it comes before policies for every use
    bool dense = false;                   // for dense linear layers alone
    bool matched = false;
  };
  // `dense`: the value is the input of a dense linear layer.
  Keeper* last_match(const std::string& layer, std::optional<Use> only, bool dense);
  Keeper& keeper_of(const Slot& slot, Use use);

  std::vector<Choice> choices_;
  std::vector<std::string> layers_;  // seen so far
};

}  // namespace comera::layers
