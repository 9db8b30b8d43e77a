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
    // keep, compact, velora, act2bit, act2bit-approxbp, bf16, int8, int4, int8-stochastic, int4-stochastic, offload;
    // by name also cheap, share and block
    std::string policy;

    std::string word() const { return glob.empty() ? policy : glob + "=" + policy; }
  };
  Recompute recompute = Recompute::none;  // of layers and blocks whose names no rule of recomputation matches
  // Of the rules that match a layer the last of each kind counts: compact and velora for inputs of linear layers
  // (velora for those of dense ones alone), act2bit for slopes, cheap, share and block for recomputation, copies in
  // fewer bits for all other values. keep is of every kind. Without a match a value is kept as it is.
  std::vector<Rule> rules;
  ProjectedSettings projected = {};
  DirectionSettings directions = {};
  OffloadSettings offloading = {};
  bool may_be_idle = false;  // true: rules without effect are accepted, as those of a run from before they were refused

  bool projects() const;
  bool offloads() const;
};

// The words of --activations that change the result: none if all values are exact, else all.
std::vector<std::string> relevant_words(const std::vector<std::string>& words);

// Parses words "POLICY" and "GLOB=POLICY". The last of the words keep, cheap, share and block without a glob is the
// recomputation of all layers that none with a glob matches. GLOB=block is for blocks by the beginning of their layers'
// names, such as model.layers.3 or model.layers.3.*. InputError for an unknown policy and for an empty glob.
Activations parse_activations(const std::vector<std::string>& words);
// InputError for a word for all layers that another word for all layers leaves without effect.
void check_words_for_all(const std::vector<std::string>& words);

// The keeper of these rules. It is used by one engine at a time.
class RuledKeeper final : public Keeper {
 public:
  explicit RuledKeeper(const Activations& activations);

  void declare(Parameter& weight, const std::string& layer) override;
  void begin(const kernels::StepScalars* scalars) override;
  Recompute recompute(const std::string& layer, Recompute all) override;
  bool runs_again(const std::string& block, Recompute all) override;
  void rebuild(Producer* producer, Use use, Slot& slot) override;
  void keep(Walk& walk, const Tensor& tensor, Use use, Slot& slot) override;
  bool studies() const override;
  void studied(double forward_flops) override;
  bool allocate(const kernels::Backend& backend) override;
  void check_rules() const override;

 private:
  struct Choice {
    Activations::Rule rule;
    std::shared_ptr<Keeper> keeper = {};      // null: keep
    std::optional<Recompute> recompute = {};  // of keep, and of what is computed again
    std::optional<Use> only = {};             // the use that the policy is for; it comes before policies for every use
    bool dense = false;                       // for dense linear layers alone
    // Seen so far: values that it is for and names; one of them that it decides; of these, one that it leaves to the
    // layer which computes it again.
    bool named = false, decides = false, again = false;

    bool matches(const std::string& layer) const;
    bool keeps() const { return keeper || rule.policy == "keep"; }  // it is not of recomputation alone
  };
  // `dense`: the value is the input of a dense linear layer. Null: no rule matches.
  Choice* last_match(const std::string& layer, std::optional<Use> only, bool dense);
  Choice* choice_of(const Slot& slot, Use use);
  [[noreturn]] void fail_unmatched(const Choice& choice) const;

  std::vector<Choice> choices_;
  bool may_be_idle_;
  // Seen so far: all; with inputs that compact may project; those with a dense weight.
  std::vector<std::string> layers_, blocks_, linear_, dense_;
};

}  // namespace comera::layers
