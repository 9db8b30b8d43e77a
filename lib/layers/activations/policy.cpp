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

constexpr const char* earlier_keep = "none";  // in recipes of 0.1.0

void check_policy(const std::string& word, const std::string& policy) {
  std::vector<std::string> known;
  for (const auto& [name, value] : recomputations) known.push_back(name);
  for (const auto& [name, value] : copies) known.push_back(name);
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
          "[train] --activations {}: '{}' is for all layers; leave out '{}=', or use keep, int8 or int4 for them", word,
          policy, glob);
    activations.rules.push_back({glob, policy});
  }
  return activations;
}

std::vector<std::string> words_of_copies(const std::vector<std::string>& words) {
  std::vector<std::string> copies = words;
  std::erase_if(copies, [](const std::string& word) { return word == earlier_keep || recomputations.contains(word); });
  return copies;
}

RuledKeeper::RuledKeeper(const Activations& activations) {
  for (const Activations::Rule& rule : activations.rules) {
    const auto copy = copies.find(rule.policy);
    std::shared_ptr<Keeper> keeper;
    if (copy != copies.end()) keeper = make_quantised_keeper(copy->second);
    choices_.push_back({rule, std::move(keeper)});
  }
}

void RuledKeeper::begin(const kernels::StepScalars* scalars) {
  for (const Choice& choice : choices_)
    if (choice.keeper) choice.keeper->begin(scalars);
}

void RuledKeeper::keep(Walk& walk, const Tensor& tensor, Use use, Slot& slot) {
  Choice* chosen = nullptr;
  for (Choice& choice : choices_)
    if (choice.rule.glob.empty() || glob_match(choice.rule.glob, slot.layer)) {
      chosen = &choice;
      choice.matched = true;
    }
  if (walk.recording() && std::find(layers_.begin(), layers_.end(), slot.layer) == layers_.end())
    layers_.push_back(slot.layer);
  (chosen && chosen->keeper ? *chosen->keeper : exact_keeper()).keep(walk, tensor, use, slot);
}

void RuledKeeper::check_rules() const {
  for (const Choice& choice : choices_)
    if (!choice.matched)
      fail_input("[train] --activations {}={}: no layer of the model matches; its layers are {}", choice.rule.glob,
                 choice.rule.policy,
                 fmt::join(layers_.begin(), layers_.begin() + std::min<std::ptrdiff_t>(8, std::ssize(layers_)), ", "));
}

}  // namespace comera::layers
