#include "lib/layers/activations/policy.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "lib/core/error.h"
#include "lib/core/glob.h"
#include "lib/core/options/suggest.h"
#include "lib/layers/activations/quantised.h"

namespace comera::layers {
namespace {

const std::map<std::string, Recompute> recomputations = {
    {"keep", Recompute::none}, {"cheap", Recompute::cheap}, {"block", Recompute::block}};
const std::map<std::string, QuantisedSettings> copies = {
    {"int8", {8, false}}, {"int4", {4, false}}, {"int8-stochastic", {8, true}}, {"int4-stochastic", {4, true}}};

constexpr const char* compact = "compact";
constexpr const char* earlier_keep = "none";  // in recipes of 0.1.0

void check_policy(const std::string& word, const std::string& policy) {
  std::vector<std::string> known;
  for (const auto& [name, value] : recomputations) known.push_back(name);
  for (const auto& [name, value] : copies) known.push_back(name);
  known.emplace_back(compact);
  if (std::find(known.begin(), known.end(), policy) == known.end())
    fail_input("[train] --activations {}: there is no policy '{}'{}; use {}", word, policy, did_you_mean(policy, known),
               fmt::join(known, ", "));
}

}  // namespace

Activations parse_activations(const std::vector<std::string>& words) {
  Activations activations;
  for (const std::string& word : words) {
    const std::size_t equals = word.rfind('=');
    const std::string glob = equals == std::string::npos ? "" : word.substr(0, equals),
                      policy = equals == std::string::npos ? word : word.substr(equals + 1);
    if (word == earlier_keep) continue;
    check_policy(word, policy);
    const auto recompute = recomputations.find(policy);
    if (glob.empty() && recompute != recomputations.end()) {
      activations.recompute = recompute->second;
      continue;
    }
    if (recompute != recomputations.end() && policy != "keep")
      fail_input(
          "[train] --activations {}: '{}' is for all layers; leave out '{}=', or use keep, compact, int8 or int4 for "
          "them",
          word, policy, glob);
    activations.rules.push_back({glob, policy});
  }
  return activations;
}

std::vector<std::string> words_of_copies(const std::vector<std::string>& words) {
  std::vector<std::string> copies = words;
  const auto is_compact = [](const std::string& word) {
    return word == compact || word.ends_with(std::string("=") + compact);
  };
  // Chains project what is kept and have exact products of what is computed again.
  const bool depends = std::any_of(words.begin(), words.end(), is_compact);
  std::erase_if(copies, [&](const std::string& word) {
    return word == earlier_keep || (!depends && recomputations.contains(word));
  });
  return copies;
}

bool Activations::projects() const {
  return std::any_of(rules.begin(), rules.end(), [](const Rule& rule) { return rule.policy == compact; });
}

RuledKeeper::RuledKeeper(const Activations& activations) {
  for (const Activations::Rule& rule : activations.rules) {
    Choice choice{.rule = rule, .keeper = nullptr, .projects = rule.policy == compact};
    const auto copy = copies.find(rule.policy);
    if (copy != copies.end()) choice.keeper = make_quantised_keeper(copy->second);
    if (choice.projects) choice.keeper = make_projected_keeper(activations.projected);
    choices_.push_back(std::move(choice));
  }
}

void RuledKeeper::begin(const kernels::StepScalars* scalars) {
  for (const Choice& choice : choices_)
    if (choice.keeper) choice.keeper->begin(scalars);
}

Keeper& RuledKeeper::keeper_of(const std::string& layer, bool product) {
  Keeper *copies = nullptr, *projection = nullptr;
  for (Choice& choice : choices_) {
    if (!choice.rule.glob.empty() && !glob_match(choice.rule.glob, layer)) continue;
    choice.matched = true;
    if (!choice.keeper) copies = projection = nullptr;
    (choice.projects ? projection : copies) = choice.keeper.get();
  }
  Keeper* const chosen = product && projection ? projection : copies;
  return chosen ? *chosen : exact_keeper();
}

void RuledKeeper::declare(Parameter& weight, const std::string& layer) {
  keeper_of(layer, true).declare(weight, layer);
}

void RuledKeeper::keep(Walk& walk, const Tensor& tensor, Use use, Slot& slot) {
  if (walk.recording() && std::find(layers_.begin(), layers_.end(), slot.layer) == layers_.end())
    layers_.push_back(slot.layer);
  keeper_of(slot.layer, use == Use::product && slot.place == Place::block).keep(walk, tensor, use, slot);
}

void RuledKeeper::rebuild(Producer* producer, Use use, Slot& slot) {
  keeper_of(slot.layer, use == Use::product && slot.place == Place::block).rebuild(producer, use, slot);
}

void RuledKeeper::check_rules() const {
  for (const Choice& choice : choices_) {
    if (!choice.matched)
      fail_input("[train] --activations {}={}: no layer of the model matches; its layers are {}", choice.rule.glob,
                 choice.rule.policy,
                 fmt::join(layers_.begin(), layers_.begin() + std::min<std::ptrdiff_t>(8, std::ssize(layers_)), ", "));
    if (choice.keeper) choice.keeper->check_rules();
  }
}

}  // namespace comera::layers
