#include "lib/layers/activations/policy.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "lib/core/error.h"
#include "lib/core/glob.h"
#include "lib/core/join.h"
#include "lib/core/options/rule.h"
#include "lib/core/options/suggest.h"
#include "lib/layers/activations/quantised.h"
#include "lib/layers/activations/slopes.h"

namespace comera::layers {
namespace {

const std::map<std::string, Recompute> recomputations = {
    {"keep", Recompute::none}, {"cheap", Recompute::cheap}, {"share", Recompute::share}, {"block", Recompute::block}};
const std::map<std::string, QuantisedSettings> copies = {{"bf16", {16, false}},
                                                         {"int8", {8, false}},
                                                         {"int4", {4, false}},
                                                         {"int8-stochastic", {8, true}},
                                                         {"int4-stochastic", {4, true}}};
const std::map<std::string, SlopeFit> slopes = {{"act2bit", SlopeFit::derivative},
                                                {"act2bit-approxbp", SlopeFit::primitive}};

constexpr const char* compact = "compact";
constexpr const char* velora = "velora";
constexpr const char* offload = "offload";
constexpr const char* earlier_keep = "none";  // in recipes of 0.1.0

void check_policy(const std::string& word, const std::string& policy) {
  std::vector<std::string> known;
  for (const auto& [name, value] : recomputations) known.push_back(name);
  for (const auto& [name, value] : copies) known.push_back(name);
  for (const auto& [name, value] : slopes) known.push_back(name);
  known.emplace_back(compact);
  known.emplace_back(velora);
  known.emplace_back(offload);
  if (std::find(known.begin(), known.end(), policy) == known.end())
    fail_input("[train] --activations {}: there is no policy '{}'{}; use {}", word, policy, did_you_mean(policy, known),
               join(known, ", "));
}

}  // namespace

Activations parse_activations(const std::vector<std::string>& words) {
  Activations activations;
  for (const std::string& word : words) {
    const auto [glob, policy, by_name] = split_layer_word(word);
    if (word == earlier_keep) continue;
    check_policy(word, policy);
    const auto recompute = recomputations.find(policy);
    if (glob.empty() && recompute != recomputations.end()) {
      activations.recompute = recompute->second;
      continue;
    }
    activations.rules.push_back({glob, policy});
  }
  return activations;
}

// A value that is computed again from copies differs from a copy of the value, so recomputation counts beside copies.
// `share` restores inputs of norms within rounding, so it always counts.
std::vector<std::string> relevant_words(const std::vector<std::string>& words) {
  const Activations activations = parse_activations(words);
  bool approximates = false, shares = activations.recompute == Recompute::share;
  for (const Activations::Rule& rule : activations.rules) {
    approximates = approximates || (rule.policy != offload && !recomputations.contains(rule.policy));
    shares = shares || rule.policy == "share";
  }
  if (!approximates && !shares) return {};
  std::vector<std::string> relevant;
  for (const Activations::Rule& rule : activations.rules)
    if (approximates || rule.policy != offload) relevant.push_back(rule.word());
  for (const auto& [name, value] : recomputations)
    if (value == activations.recompute && value != Recompute::none) relevant.push_back(name);
  return relevant;
}

bool Activations::offloads() const {
  return std::any_of(rules.begin(), rules.end(), [](const Rule& rule) { return rule.policy == offload; });
}

bool Activations::projects() const {
  return std::any_of(rules.begin(), rules.end(), [](const Rule& rule) { return rule.policy == compact; });
}

RuledKeeper::RuledKeeper(const Activations& activations) {
  std::shared_ptr<Keeper> offloaded;  // one for all its rules, since it has the queues of copies for itself
  if (activations.offloads()) offloaded = make_offload_keeper(activations.offloading);
  for (const Activations::Rule& rule : activations.rules) {
    Choice& choice = choices_.emplace_back(Choice{.rule = rule});
    if (const auto again = recomputations.find(rule.policy); again != recomputations.end())
      choice.recompute = again->second;
    if (const auto copy = copies.find(rule.policy); copy != copies.end())
      choice.keeper = make_quantised_keeper(copy->second);
    if (const auto slope = slopes.find(rule.policy); slope != slopes.end())
      choice.keeper = make_slope_keeper(slope->second), choice.only = Use::slope;
    if (rule.policy == compact)
      choice.keeper = make_projected_keeper(activations.projected), choice.only = Use::product;
    if (rule.policy == offload) choice.keeper = offloaded;
    if (rule.policy == velora) {
      choice.keeper = make_direction_keeper(activations.directions, rule.word());
      choice.only = Use::product, choice.dense = true;
    }
  }
}

void RuledKeeper::begin(const kernels::StepScalars* scalars) {
  for (const Choice& choice : choices_)
    if (choice.keeper) choice.keeper->begin(scalars);
}

bool RuledKeeper::studies() const {
  return std::any_of(choices_.begin(), choices_.end(),
                     [](const Choice& choice) { return choice.keeper && choice.keeper->studies(); });
}

void RuledKeeper::studied(double forward_flops) {
  for (const Choice& choice : choices_)
    if (choice.keeper) choice.keeper->studied(forward_flops);
}

bool RuledKeeper::allocate(const kernels::Backend& backend) {
  bool moved = false;
  for (const Choice& choice : choices_)
    if (choice.keeper) moved = choice.keeper->allocate(backend) || moved;
  return moved;
}

void RuledKeeper::declare(Parameter& weight, const std::string& layer) {
  if (Keeper* keeper = last_match(layer, Use::product, true)) keeper->declare(weight, layer);
}

Keeper* RuledKeeper::last_match(const std::string& layer, std::optional<Use> only, bool dense) {
  Keeper* last = nullptr;
  for (Choice& choice : choices_)
    if (choice.keeps() && (!choice.keeper || choice.only == only) && (dense || !choice.dense) &&
        (choice.rule.glob.empty() || glob_match(choice.rule.glob, layer))) {
      last = choice.keeper.get();
      choice.matched = true;
    }
  return last;
}

Keeper& RuledKeeper::keeper_of(const Slot& slot, Use use) {
  const bool special =
      use == Use::slope ? has_slope_table(slot.activation) : use == Use::product && slot.place == Place::block;
  Keeper* keeper = special ? last_match(slot.layer, use, slot.weight != nullptr) : nullptr;
  if (!keeper) keeper = last_match(slot.layer, std::nullopt, false);
  return keeper ? *keeper : exact_keeper();
}

void RuledKeeper::keep(Walk& walk, const Tensor& tensor, Use use, Slot& slot) {
  if (walk.recording() && !slot.layer.empty() && std::find(layers_.begin(), layers_.end(), slot.layer) == layers_.end())
    layers_.push_back(slot.layer);
  keeper_of(slot, use).keep(walk, tensor, use, slot);
}

Recompute RuledKeeper::recompute(const std::string& layer, Recompute all) {
  for (Choice& choice : choices_)
    if (choice.recompute && choice.recompute != Recompute::block && glob_match(choice.rule.glob, layer)) {
      all = *choice.recompute;
      choice.matched = true;
    }
  return all;
}

bool RuledKeeper::runs_again(const std::string& block, Recompute all) {
  if (std::find(blocks_.begin(), blocks_.end(), block) == blocks_.end()) blocks_.push_back(block);
  for (Choice& choice : choices_) {
    if (!choice.recompute) continue;
    const bool again = *choice.recompute == Recompute::block;
    // Other policies are of layers: a glob that names the block alone matches none of them.
    if (!glob_match(choice.rule.glob, block + ".") && !(again && glob_match(choice.rule.glob, block))) continue;
    all = *choice.recompute;
    if (again) choice.matched = true;
  }
  return all == Recompute::block;
}

void RuledKeeper::rebuild(Producer* producer, Use use, Slot& slot) {
  keeper_of(slot, use).rebuild(producer, use, slot);
}

void RuledKeeper::check_rules() const {
  for (const Choice& choice : choices_) {
    if (!choice.matched && choice.only == Use::slope)
      fail_input(
          "[train] --activations {}: no dense layer with GELU or SiLU matches; a layer in tensor-train form keeps no "
          "input of its activation, and a gated layer needs its numbers; leave it out, or use int8",
          choice.rule.word());
    if (!choice.matched && choice.dense)
      fail_input(
          "[train] --activations {}: no dense linear layer matches; for layers in tensor-train or low-rank form use "
          "int4, which keeps as little and differs by about 7 %, or compact",
          choice.rule.word());
    const auto some = [](const std::vector<std::string>& names) {
      return join(std::span(names).first(std::min<std::size_t>(8, names.size())), ", ");
    };
    if (!choice.matched && choice.recompute == Recompute::block)
      fail_input("[train] --activations {}: no block matches that can run again; {}", choice.rule.word(),
                 blocks_.empty() ? "the model has none" : "these can, the last one cannot: " + some(blocks_));
    if (!choice.matched && choice.recompute && choice.recompute != Recompute::none)
      fail_input(
          "[train] --activations {}: no layer matches whose values can be computed again, outside of blocks that run "
          "again; the layers are {}",
          choice.rule.word(), some(layers_));
    if (!choice.matched)
      fail_input("[train] --activations {}: no layer of the model matches; its layers are {}", choice.rule.word(),
                 some(layers_));
    if (choice.keeper) choice.keeper->check_rules();
  }
}

}  // namespace comera::layers
