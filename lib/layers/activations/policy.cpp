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

// Some names, for a message.
std::string some(const std::vector<std::string>& names) {
  return join(std::span(names).first(std::min<std::size_t>(8, names.size())), ", ");
}

void add_new(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

}  // namespace

Activations parse_activations(const std::vector<std::string>& words) {
  Activations activations;
  for (const std::string& word : words) {
    const auto [glob, policy, by_name] = split_layer_word(word);
    if (word == earlier_keep) continue;
    check_policy(word, policy);
    if (by_name && glob.empty()) fail_input("[train] --activations {}: no layer is named; leave out '='", word);
    const auto recompute = recomputations.find(policy);
    if (glob.empty() && recompute != recomputations.end()) {
      activations.recompute = recompute->second;
      continue;
    }
    activations.rules.push_back({glob, policy});
  }
  return activations;
}

void check_words_for_all(const std::vector<std::string>& words) {
  std::string recomputation, copies_before;
  for (const std::string& word : words) {
    if (!recomputations.contains(word)) {
      copies_before = word.find('=') == std::string::npos && word != earlier_keep ? word : copies_before;
      continue;
    }
    if (!recomputation.empty())
      fail_input("[train] --activations {}: has no effect, because {} after it is for all layers too; leave one out",
                 recomputation, word);
    if (word == "keep" && !copies_before.empty())
      fail_input(
          "[train] --activations keep: without a name it means that nothing is computed again, and leaves '{}' before "
          "it as it is; leave one of them out, or name layers, as in '*attention*=keep'",
          copies_before);
    recomputation = word;
  }
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

RuledKeeper::RuledKeeper(const Activations& activations) : may_be_idle_(activations.may_be_idle) {
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
      choice.keeper = make_projected_keeper(activations.projected, rule.word()), choice.only = Use::product;
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

bool RuledKeeper::Choice::matches(const std::string& layer) const {
  return rule.glob.empty() || glob_match(rule.glob, layer);
}

void RuledKeeper::declare(Parameter& weight, const std::string& layer) {
  Keeper* keeper = nullptr;
  for (const Choice& choice : choices_)
    if (choice.keeps() && (!choice.keeper || choice.only == Use::product) && choice.matches(layer))
      keeper = choice.keeper.get();
  if (keeper) keeper->declare(weight, layer);
}

RuledKeeper::Choice* RuledKeeper::last_match(const std::string& layer, std::optional<Use> only, bool dense) {
  Choice* last = nullptr;
  for (Choice& choice : choices_) {
    if (!choice.keeps() || (choice.keeper && choice.only != only) || (!dense && choice.dense)) continue;
    if (!choice.matches(layer)) continue;
    choice.named = true;
    if (choice.keeper || !only || last) last = &choice;  // `keep` takes a value from policies of its use
  }
  return last;
}

RuledKeeper::Choice* RuledKeeper::choice_of(const Slot& slot, Use use) {
  const bool product = use == Use::product && slot.place == Place::block;
  if (product) add_new(linear_, slot.layer);
  if (product && slot.weight) add_new(dense_, slot.layer);
  const bool special = product || (use == Use::slope && has_slope_table(slot.activation));
  Choice* choice = special ? last_match(slot.layer, use, slot.weight != nullptr) : nullptr;
  if (choice) choice->decides = true;
  if (choice && choice->keeper) return choice;
  return last_match(slot.layer, std::nullopt, false);
}

void RuledKeeper::keep(Walk& walk, const Tensor& tensor, Use use, Slot& slot) {
  if (walk.recording() && !slot.layer.empty() && std::find(layers_.begin(), layers_.end(), slot.layer) == layers_.end())
    layers_.push_back(slot.layer);
  Choice* choice = choice_of(slot, use);
  if (choice) choice->decides = true;
  Keeper& keeper = choice && choice->keeper ? *choice->keeper : exact_keeper();
  keeper.keep(walk, tensor, use, slot);
}

Recompute RuledKeeper::recompute(const std::string& layer, Recompute all) {
  Choice* last = nullptr;
  Recompute without = all;  // the last one
  for (Choice& choice : choices_) {
    if (!choice.recompute || choice.recompute == Recompute::block || !choice.matches(layer)) continue;
    choice.named = true;
    if (last) without = *last->recompute;
    last = &choice;
  }
  if (!last) return all;
  if (last->recompute != Recompute::none || without != Recompute::none) last->decides = true;
  return *last->recompute;
}

bool RuledKeeper::runs_again(const std::string& block, Recompute all) {
  add_new(blocks_, block);
  Choice* last = nullptr;
  Recompute without = all;  // the last one
  for (Choice& choice : choices_) {
    if (!choice.recompute) continue;
    const bool again = *choice.recompute == Recompute::block;
    // Other policies are of layers: a glob that names the block alone matches none of them.
    if (!glob_match(choice.rule.glob, block + ".") && !(again && glob_match(choice.rule.glob, block))) continue;
    choice.named = choice.named || again;
    if (last) without = *last->recompute;
    last = &choice;
  }
  if (!last) return all == Recompute::block;
  if (last->recompute == Recompute::block || without == Recompute::block) last->decides = true;
  return last->recompute == Recompute::block;
}

void RuledKeeper::rebuild(Producer* producer, Use use, Slot& slot) {
  Choice* choice = choice_of(slot, use);
  if (choice) choice->again = true;
  Keeper& keeper = choice && choice->keeper ? *choice->keeper : exact_keeper();
  keeper.rebuild(producer, use, slot);
}

void RuledKeeper::fail_unmatched(const Choice& choice) const {
  const std::string word = choice.rule.word();
  if (choice.only == Use::slope)
    fail_input(
        "[train] --activations {}: no dense layer with GELU or SiLU matches; a layer in tensor-train or low-rank form "
        "keeps no input of its activation, and a gated layer needs its numbers; leave it out, or use int8",
        word);
  if (choice.dense && dense_.empty())
    fail_input(
        "[train] --activations {}: no dense linear layer matches; for layers in tensor-train or low-rank form use "
        "int4, which keeps as little and differs by about 7 %, or compact",
        word);
  const std::vector<std::string>& linear = choice.dense ? dense_ : linear_;
  if (choice.only == Use::product)
    fail_input(
        "[train] --activations {}: no {}linear layer matches whose input it may keep; those are the layers of blocks "
        "without the attention's output layer, whose input the attention keeps itself; {}",
        word, choice.dense ? "dense " : "",
        linear.empty() ? "the model has none; use int8 or int4" : "these may be named: " + some(linear));
  if (choice.recompute == Recompute::block)
    fail_input("[train] --activations {}: no block matches that can run again; {}", word,
               blocks_.empty() ? "the model has none" : "these can, the last one cannot: " + some(blocks_));
  if (choice.recompute && choice.recompute != Recompute::none)
    fail_input(
        "[train] --activations {}: no layer matches whose values can be computed again, outside of blocks that run "
        "again; the layers are {}",
        word, some(layers_));
  fail_input("[train] --activations {}: no layer of the model matches; its layers are {}", word, some(layers_));
}

void RuledKeeper::check_rules() const {
  for (const Choice& choice : choices_) {
    if (!choice.named) fail_unmatched(choice);
    if (choice.decides || (choice.again && choice.only)) {
      if (choice.keeper) choice.keeper->check_rules();
      continue;
    }
    if (may_be_idle_) continue;
    if (choice.again)
      fail_input(
          "[train] --activations {}: keeps nothing, because the values that it names are computed again; leave it out, "
          "or keep them, as in '{}=keep' before it",
          choice.rule.word(), choice.rule.glob.empty() ? "*" : choice.rule.glob);
    fail_input(
        "[train] --activations {}: has no effect, because the last word that is for a value counts, and later words "
        "take all that it names; put it after them, or leave it out",
        choice.rule.word());
  }
}

}  // namespace comera::layers
