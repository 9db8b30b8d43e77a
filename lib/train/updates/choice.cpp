#include "lib/train/updates/choice.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/core/error.h"
#include "lib/core/glob.h"
#include "lib/core/join.h"
#include "lib/core/options/rule.h"
#include "lib/core/options/suggest.h"

namespace comera::train {
namespace {

std::unique_ptr<Method> make_method(const std::string& name, const MethodSettings& settings) {
  if (name == "adagrad") return make_adagrad();
  if (name == "sgd") return make_sgd();
  if (name == "muon") return make_muon();
  if (name == "adamw8bit") return make_adamw8bit(settings.least_elements);
  if (name == "apollo-mini") return make_apollo_mini(settings.least_elements);
  if (name == "galore" || name == "galore8bit")
    return make_galore(settings.galore, settings.least_elements, name == "galore8bit");
  if (name == "lomo") return make_lomo(settings.lomo.clip, settings.least_elements);
  if (name == "adalomo") return make_adalomo(settings.least_elements);
  return make_adamw();
}

// "up" of "up.weight", "up.bias", and of the parts of a chain: "up.tt.0", "up.rank.0", "up.exact.rows".
std::string layer_of(const Parameter& parameter) {
  const std::string& name = parameter.name;
  std::size_t end = name.size();
  for (const char* part : {".weight", ".bias", ".tt.", ".rank.", ".exact."}) end = std::min(end, name.rfind(part));
  return name.substr(0, end);
}

bool matches(const MethodRule& rule, const Parameter& parameter) {
  return rule.glob.empty() || glob_match(rule.glob, layer_of(parameter));
}

std::string word_of(const MethodRule& rule) { return rule.glob.empty() ? rule.method : rule.glob + "=" + rule.method; }

// Some layers, for a message.
std::string some_layers(const layers::Parameters& parameters) {
  std::vector<std::string> layers;
  for (const Parameter& parameter : parameters.all())
    if (parameter.decay && layers.size() < 8 && (layers.empty() || layers.back() != layer_of(parameter)))
      layers.push_back(layer_of(parameter));
  return join(layers, ", ");
}

}  // namespace

void require_whole_gradient(const Parameter& weight, const char* method) {
  if (!weight.subspace) return;
  fail_input(
      "[train] --optimizer {} needs whole gradients, and --activations compact keeps that of '{}' in a subspace; use "
      "adamw or adamw8bit for it, or --activations int8",
      method, weight.name);
}

const MethodRule* rule_at_once(const std::vector<MethodRule>& rules) {
  const auto rule = std::find_if(rules.begin(), rules.end(),
                                 [](const MethodRule& one) { return make_method(one.method, {})->at_once(); });
  return rule == rules.end() ? nullptr : &*rule;
}

const std::vector<std::string>& method_names() {
  static const std::vector<std::string> names = {"adamw",  "adagrad",    "sgd",         "muon", "adamw8bit",
                                                 "galore", "galore8bit", "apollo-mini", "lomo", "adalomo"};
  return names;
}

std::vector<MethodRule> parse_methods(const std::vector<std::string>& words) {
  std::vector<MethodRule> rules;
  for (const std::string& word : words) {
    const LayerWord parts = split_layer_word(word);
    const MethodRule rule{parts.glob, parts.value};
    const auto& known = method_names();
    if (std::find(known.begin(), known.end(), rule.method) == known.end())
      fail_input("[train] --optimizer {}: there is no method '{}'{}; use {}", word, rule.method,
                 did_you_mean(rule.method, known), join(known, ", "));
    if (parts.by_name && parts.glob.empty())
      fail_input("[train] --optimizer {}: no layer is named; leave out '='", word);
    if (rule.glob.empty()) rules.clear();
    rules.push_back(rule);
  }
  return rules;
}

std::vector<std::string> counted_methods(const std::vector<std::string>& words, const std::string& of_all) {
  std::vector<std::string> counted;
  for (const std::string& word : words) {
    if (word.find('=') == std::string::npos) counted.clear();
    counted.push_back(word);
  }
  if (counted.empty() || counted.front().find('=') != std::string::npos) counted.insert(counted.begin(), of_all);
  return counted;
}

bool takes_cores(const std::string& method) {
  return method == "adamw" || method == "adagrad" || method == "sgd" || method == "muon";
}

std::string default_method(const std::string& form) { return form == "dense" ? "adamw" : "muon"; }

MethodChoice::MethodChoice(const MethodSettings& settings) : settings_(settings) {
  names_.emplace_back("adamw");
  for (const MethodRule& rule : settings.rules)
    if (std::find(names_.begin(), names_.end(), rule.method) == names_.end()) names_.push_back(rule.method);
  for (const std::string& name : names_) methods_.push_back(make_method(name, settings));
}

std::size_t MethodChoice::number_of(const MethodRule& rule) const {
  return static_cast<std::size_t>(std::find(names_.begin(), names_.end(), rule.method) - names_.begin());
}

bool MethodChoice::takes(const MethodRule& rule, const Parameter& parameter) const {
  return matches(rule, parameter) && methods_[number_of(rule)]->takes(parameter, !rule.glob.empty());
}

const MethodRule* MethodChoice::rule_of(const Parameter& parameter) const {
  const auto rule = std::find_if(settings_.rules.rbegin(), settings_.rules.rend(),
                                 [&](const MethodRule& one) { return takes(one, parameter); });
  return rule == settings_.rules.rend() ? nullptr : &*rule;
}

std::size_t MethodChoice::number_of(const Parameter& parameter) const {
  const MethodRule* rule = rule_of(parameter);
  return rule ? number_of(*rule) : 0;
}

void MethodChoice::mark(layers::Parameters& parameters) const {
  for (Parameter& parameter : parameters.all()) parameter.at_once = (*this)[number_of(parameter)].at_once();
}

void MethodChoice::check_later(const MethodRule& rule, const layers::Parameters& parameters) const {
  const auto& all = parameters.all();
  const MethodRule* last = settings_.rules.data() + settings_.rules.size();
  // A word that names more layers than later ones may have an effect in another form of the model.
  const auto counts = [&](const Parameter& p) {
    return rule_of(p) == &rule ||
           (matches(rule, p) && std::none_of(&rule + 1, last, [&](const MethodRule& one) { return matches(one, p); }));
  };
  if (std::any_of(all.begin(), all.end(), counts)) return;
  fail_input(
      "[train] --optimizer {}: has no effect, because the last word whose method takes a weight counts, and later "
      "words take all that it names; put it after them, or leave it out",
      word_of(rule));
}

void MethodChoice::check(const layers::Parameters& parameters) const {
  const auto& all = parameters.all();
  for (const MethodRule& rule : settings_.rules) {
    if (std::none_of(all.begin(), all.end(), [&](const Parameter& p) { return matches(rule, p); }))
      fail_input("[train] --optimizer {}: no layer of the model matches; its layers are {}", word_of(rule),
                 some_layers(parameters));
    if (rule.by_default) continue;
    if (std::any_of(all.begin(), all.end(), [&](const Parameter& p) { return takes(rule, p); })) {
      check_later(rule, parameters);
      continue;
    }
    if (rule.method == "muon")
      fail_input(
          "[train] --optimizer {}: {} has no linear weight in TT or low-rank form; use --form tt or lowrank, or name "
          "dense linear weights, such as '*=muon'",
          word_of(rule), rule.glob.empty() ? "the model" : "what matches");
    fail_input(
        "[train] --optimizer {}: {} has no dense linear weight of {} elements or more{}; cores of tensor trains, "
        "tables and small weights cannot have it; leave it out, or use adamw, adagrad or sgd, which take them",
        word_of(rule), rule.glob.empty() ? "the model" : "what matches", settings_.least_elements,
        rule.method.ends_with("lomo") || (rule.glob.empty() && rule.method.starts_with("galore")) ? " in a block" : "");
  }
  for (const Parameter& parameter : all) (*this)[number_of(parameter)].check(parameter);
}

void MethodChoice::check_settings(const layers::Parameters& parameters, const std::vector<std::string>& given) const {
  const auto has_moments = [&](const Parameter& parameter) {
    const std::string& name = names_[number_of(parameter)];
    return name != "adagrad" && name != "sgd";
  };
  if (given.empty() || std::ranges::any_of(parameters.all(), has_moments)) return;
  fail_input("[train] --{} has no effect: it is AdamW's, and all weights have {}; leave it out", given.front(),
             join(std::vector<std::string>(names_.begin() + 1, names_.end()), " or "));
}

}  // namespace comera::train
