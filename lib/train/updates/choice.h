// The choice of --optimizer: the method of update for all parameters or for layers by name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/train/updates/method.h"

namespace comera::train {

struct MethodRule {
  std::string glob;  // of layers by their Hugging Face names; "": all
  std::string method;
  bool by_default = false;  // no word of the call: it may have nothing to do
};

// Parses words "METHOD" and "GLOB=METHOD". InputError for an unknown method.
std::vector<MethodRule> parse_methods(const std::vector<std::string>& words);
// The words that count: a method for all, and the words by name after it. The first is `of_all` if no word is for all.
std::vector<std::string> counted_methods(const std::vector<std::string>& words, const std::string& of_all = "adamw");
// The first word whose method updates weights in the backward; null: there is none.
const MethodRule* rule_at_once(const std::vector<MethodRule>& rules);
// The default of pretraining by --form: Muon where cores of linear weights may be, else AdamW.
std::string default_method(const std::string& form);
// Cores of linear weights may have this method.
bool takes_cores(const std::string& method);
// The methods of --optimizer.
const std::vector<std::string>& method_names();

struct MethodSettings {
  std::vector<MethodRule> rules;       // the last that matches counts, if its method takes the weight; none: adamw
  std::int64_t least_elements = 4096;  // of a weight that another method than AdamW takes
  GaloreSettings galore = {};
  LomoSettings lomo = {};
};

// A method per parameter: that of the last rule which matches it and whose method takes it. AdamW, which is the first,
// has the rest.
class MethodChoice {
 public:
  explicit MethodChoice(const MethodSettings& settings);

  std::size_t methods() const { return methods_.size(); }
  Method& operator[](std::size_t number) const { return *methods_[number]; }
  std::size_t number_of(const Parameter& parameter) const;
  // Sets Parameter::at_once.
  void mark(layers::Parameters& parameters) const;
  // InputError for a rule that no parameter matches, for one whose method takes none of them, for one whose
  // layers later rules match and take, and for a parameter that its method cannot update.
  void check(const layers::Parameters& parameters) const;
  // InputError for options of AdamW that the call gives although no parameter has AdamW or a method with its moments.
  void check_settings(const layers::Parameters& parameters, const std::vector<std::string>& given) const;

 private:
  std::size_t number_of(const MethodRule& rule) const;
  bool takes(const MethodRule& rule, const Parameter& parameter) const;
  const MethodRule* rule_of(const Parameter& parameter) const;  // null: no rule takes it
  void check_later(const MethodRule& rule, const layers::Parameters& parameters) const;

  MethodSettings settings_;
  std::vector<std::string> names_;  // of methods_
  std::vector<std::unique_ptr<Method>> methods_;
};

}  // namespace comera::train
