#include "lib/train/optimizer_options.h"

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"

namespace comera::train {

OptimizerOptions optimizer_options(const OptionValues& values) {
  OptimizerOptions options;
  options.beta = values.real("beta");
  options.penalty = values.text("rank-penalty") == "mean" ? kernels::RankPenalty::mean : kernels::RankPenalty::size;
  options.adamw.weight_decay = values.real("weight-decay");
  options.adamw.beta1 = values.real("beta1");
  options.adamw.beta2 = values.real("beta2");
  options.adamw.epsilon = values.real("epsilon");
  for (const char* name : {"beta1", "beta2"})
    if (values.real(name) == 1)
      fail_input("[{}] --{} 1: the moment would never change and be divided by zero; use a value below 1, such as {}",
                 values.table().verb(), name, values.table().find(name)->default_text);
  if (options.adamw.epsilon == 0)
    fail_input("[{}] --epsilon 0: weights without a gradient would be divided by zero; use a value above 0, such as {}",
               values.table().verb(), values.table().find("epsilon")->default_text);
  for (const char* name : {"beta1", "beta2", "epsilon"})
    if (values.source(name) == OptionSource::flag) options.adamw_settings.emplace_back(name);
  options.structured_rates = values.has("core-rates") && values.text("core-rates") == "structured";
  if (values.has("weight-norm-decay")) {
    options.weight_norm_decay = values.real("weight-norm-decay");
    options.needs_norm_decay =
        options.weight_norm_decay > 0 && values.source("weight-norm-decay") == OptionSource::flag;
  }
  return options;
}

void check_core_rates(const OptionValues& values, const std::vector<MethodRule>& rules) {
  if (!values.has("core-rates") || values.source("core-rates") != OptionSource::flag) return;
  if (values.text("core-rates") != "structured") return;
  for (const MethodRule& rule : rules)
    if (rule.method == "adagrad" || rule.method == "sgd")
      fail_input("[{}] --core-rates structured is for AdamW, and --optimizer has {}; leave out --core-rates",
                 values.table().verb(), rule.method);
}

void warn_of_rates(const OptionValues& values, const std::vector<MethodRule>& rules) {
  if (values.flag("dry-run") || values.given("lr") || values.given("lr-cores") || values.given("lr-tables")) return;
  for (const MethodRule& rule : rules)
    if (rule.method == "adagrad" || rule.method == "sgd")
      return log_warning("--optimizer {} with the default rates, which are AdamW's, will learn little: give --lr, {}",
                         rule.method,
                         rule.method == "sgd" ? "which multiplies the gradient itself" : "about ten times AdamW's");
}

}  // namespace comera::train
