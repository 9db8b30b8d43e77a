#include "lib/report/weights/comparison.h"

#include <fmt/core.h>

#include <map>

#include "lib/core/join.h"
#include "lib/core/reals.h"

namespace comera::report {
namespace {

std::string cosine_words(const char* what, const compress::Comparison::Cosine& cosine) {
  return fmt::format("cosine of {} {:.4f} (least {:.3f})", what, cosine.mean, cosine.least);
}

const std::map<std::string, std::string> titles = {{"cosine", "cosine of embeddings"},
                                                   {"cosine_least", "least cosine of embeddings"},
                                                   {"hidden_cosine", "cosine of hidden states"},
                                                   {"hidden_cosine_least", "least cosine of hidden states"},
                                                   {"order", "rank correlation of similarities"},
                                                   {"kl", "KL (nats)"},
                                                   {"same_best", "same answer"},
                                                   {"perplexity_before", "perplexity before"},
                                                   {"perplexity", "perplexity"},
                                                   {"score_difference", "difference of scores"},
                                                   {"score_spearman", "rank correlation of scores"}};

Unit unit_of(const std::string& metric) {
  if (metric == "same_best") return Unit::share;
  return metric.starts_with("perplexity") ? Unit::plain : Unit::error;
}

}  // namespace

const std::vector<std::string>& comparison_metrics() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& [name, title] : titles) all.push_back(name);
    return all;
  }();
  return names;
}

std::vector<Metric> metrics_of(const compress::Comparison& comparison) {
  std::vector<Metric> metrics;
  const auto add = [&](const char* name, const std::optional<double>& value) {
    if (value) metrics.emplace_back(name, *value);
  };
  if (comparison.embedding) add("cosine", comparison.embedding->mean), add("cosine_least", comparison.embedding->least);
  if (comparison.hidden)
    add("hidden_cosine", comparison.hidden->mean), add("hidden_cosine_least", comparison.hidden->least);
  add("order", comparison.order);
  if (comparison.scores) {
    metrics.emplace_back("score_difference", comparison.scores->difference);
    metrics.emplace_back("score_spearman", comparison.scores->spearman);
  }
  if (!comparison.answers) return metrics;
  add("kl", comparison.answers->kl);
  add("same_best", comparison.answers->same_best);
  add("perplexity_before", comparison.answers->perplexity_before);
  add("perplexity", comparison.answers->perplexity);
  return metrics;
}

std::string cost_words(const compress::Comparison& comparison) {
  if (!comparison.left_out.empty()) return "not measured: " + comparison.left_out;
  std::vector<std::string> words;
  if (const auto& answers = comparison.answers) {
    if (answers->perplexity)
      words.push_back(fmt::format("perplexity {} -> {}", format_digits(*answers->perplexity_before, 4),
                                  format_digits(*answers->perplexity, 4)));
    if (answers->kl) words.push_back(fmt::format("KL {:.4f} nats", *answers->kl));
    words.push_back("same answer in " + show(answers->same_best, Unit::share));
  }
  if (comparison.scores)
    words.push_back(fmt::format("scores differ by {:.4g} (root of the mean square), rank correlation {:.4f}",
                                comparison.scores->difference, comparison.scores->spearman));
  if (comparison.embedding) words.push_back(cosine_words("embeddings", *comparison.embedding));
  if (comparison.order) words.push_back(fmt::format("rank correlation of similarities {:.4f}", *comparison.order));
  if (comparison.hidden) words.push_back(cosine_words("hidden states", *comparison.hidden));
  return fmt::format("{}; {} texts, {} tokens of {}", join(words, ", "), comparison.sequences, comparison.tokens,
                     comparison.text);
}

Facts cost_facts(const compress::Comparison& comparison) {
  Facts facts;
  for (const auto& [name, value] : metrics_of(comparison))
    facts.emplace_back(titles.at(name), show(value, unit_of(name)));
  return facts;
}

Table to_table(const compress::Comparison& comparison) {
  Table table;
  table.columns = {{"texts", "texts", Unit::count}, {"tokens", "tokens", Unit::count}};
  std::vector<Cell>& row = table.rows.emplace_back();
  row.emplace_back(comparison.sequences);
  row.emplace_back(comparison.tokens);
  for (const auto& [name, value] : metrics_of(comparison)) {
    table.columns.push_back({name, titles.at(name), unit_of(name)});
    row.emplace_back(value);
  }
  return table;
}

Json comparison_json(const compress::Comparison& comparison) {
  if (!comparison.left_out.empty()) return {{"left_out", comparison.left_out}};
  Json json{{"text", comparison.text}, {"texts", comparison.sequences}, {"tokens", comparison.tokens}};
  if (comparison.answers) json["answers"] = comparison.answers->count;
  for (const auto& [name, value] : metrics_of(comparison)) json[name] = to_json(Cell(value));
  return json;
}

}  // namespace comera::report
