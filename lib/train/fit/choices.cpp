#include "lib/train/fit/choices.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/train/train_options.h"

namespace comera::train {
namespace {

struct Means {
  const char* activations;
  const char* optimizer;  // of dense weights
  bool splits;            // the batch into micro-batches too
};

// A cheaper method is a further line at its place. For models without weights for 8-bit moments the last two have
// AdamW in 32 bits. act2bit, share and velora are in no line: they save what `cheap` saves exactly. offload is for GPUs
// whose sequences are long enough. Adagrad and SGD need rates of their own. The errors of int4 rounded to the nearest
// add up over thousands of steps (docs/results/memory.md).
constexpr Means order[] = {{.activations = "keep", .optimizer = "adamw", .splits = false},
                           {.activations = "cheap", .optimizer = "adamw", .splits = false},
                           {.activations = "cheap", .optimizer = "adamw", .splits = true},
                           {.activations = "cheap,bf16", .optimizer = "adamw", .splits = true},
                           {.activations = "cheap,int8", .optimizer = "adamw", .splits = true},
                           {.activations = "block", .optimizer = "adamw", .splits = true},
                           {.activations = "block,bf16", .optimizer = "adamw", .splits = true},
                           {.activations = "block,int8", .optimizer = "adamw", .splits = true},
                           {.activations = "block,int8", .optimizer = "adamw8bit", .splits = true},
                           {.activations = "block,int4-stochastic", .optimizer = "adamw8bit", .splits = true},
                           {.activations = "block,int4-stochastic", .optimizer = "adamw", .splits = true},
                           {.activations = "block,compact,int4-stochastic", .optimizer = "adamw8bit", .splits = true},
                           {.activations = "block,compact,int4-stochastic", .optimizer = "adamw", .splits = true}};

constexpr std::int64_t least_rank = 4;

// Micro-batches of no more than --batch that learn the same as `batch` times `accumulate`, largest first.
std::vector<std::int64_t> micro_batches(const OptionValues& values, bool keeps) {
  const std::int64_t now = values.integer("batch"), whole = now * values.integer("accumulate");
  std::vector<std::int64_t> sizes{now};
  for (std::int64_t size = now - 1; size > 0 && !keeps; --size)
    if (whole % size == 0) sizes.push_back(size);
  return sizes;
}

std::string form_of(const OptionValues& values, const MemoryChoice& choice) {
  if (!choice.form.empty()) return choice.form;
  return values.table().find("form") ? values.text("form") : "dense";
}

// The method of cores: that of the call, or the default of the form.
std::string method_of_cores(const OptionValues& values, const std::string& form) {
  if (!values.given("optimizer")) return default_method(form);
  const std::string of_all = counted_methods(values.list("optimizer"), default_method(form)).front();
  return takes_cores(of_all) ? of_all : "adamw";
}

// The words of --optimizer for a row: cores keep their method.
std::string optimizer_in(const OptionValues& values, const MemoryChoice& choice, const Means& means) {
  const std::string of_dense = means.optimizer;
  std::string of_all = method_of_cores(values, form_of(values, choice));
  if (of_dense == "adamw") return of_all;
  return of_all == "adamw" ? of_dense : of_all + ",*=" + of_dense;
}

std::vector<MemoryChoice> forms(const OptionValues& values, const RankCeiling& ceiling) {
  if (!values.table().find("form") || values.text("form") != "auto") return {MemoryChoice()};
  std::vector<MemoryChoice> choices{{.form = "dense"}};
  for (std::int64_t part = 1; part == 1 || ceiling.rank / part >= least_rank; part *= 2)
    choices.push_back({.form = "tt",
                       .rank = ceiling.rank / part,
                       .embedding_rank = std::max<std::int64_t>(ceiling.embedding_rank / part, 1)});
  return choices;
}

void add_new(std::vector<MemoryChoice>& choices, const MemoryChoice& choice) {
  if (std::find(choices.begin(), choices.end(), choice) == choices.end()) choices.push_back(choice);
}

std::string words_of(const OptionValues& values, const char* option, const char* none) {
  const std::string words = values.canonical(option);
  return words.empty() ? none : words;
}
std::string activations_of(const OptionValues& values) { return words_of(values, "activations", "keep"); }
std::string optimizer_of(const OptionValues& values) { return words_of(values, "optimizer", "adamw"); }

}  // namespace

bool keeps_batch(const OptionValues& values) { return task_of(values) == data::Task::pairs; }

std::vector<MemoryChoice> memory_choices(const OptionValues& values, FreeOptions free, const RankCeiling& ceiling) {
  const auto fixed = [&](const char* name) { return free == FreeOptions::open && values.given(name); };
  const std::int64_t now = values.integer("batch"), whole = now * values.integer("accumulate");
  const bool whole_steps = fixed("optimizer") && rule_at_once(parse_methods(values.list("optimizer"))) != nullptr;
  const std::vector<std::int64_t> sizes = micro_batches(values, whole_steps || keeps_batch(values));
  std::vector<MemoryChoice> choices;
  for (MemoryChoice choice : forms(values, ceiling))
    for (const Means& means : order) {
      choice.activations = fixed("activations") ? activations_of(values) : means.activations;
      choice.optimizer = fixed("optimizer") ? optimizer_of(values) : optimizer_in(values, choice, means);
      for (const std::int64_t size : sizes) {
        if (size < now && !means.splits) continue;
        choice.batch = size, choice.accumulate = whole / size;
        add_new(choices, choice);
      }
    }
  return choices;
}

std::vector<MemoryChoice> memory_policies(const OptionValues& values) {
  std::vector<MemoryChoice> choices;
  for (const Means& means : order)
    add_new(choices, {.activations = means.activations,
                      .optimizer = optimizer_in(values, {}, means),
                      .batch = values.integer("batch"),
                      .accumulate = values.integer("accumulate")});
  return choices;
}

MemoryChoice current_choice(const OptionValues& values) {
  return {.activations = activations_of(values),
          .optimizer = optimizer_of(values),
          .batch = values.integer("batch"),
          .accumulate = values.integer("accumulate")};
}

void apply(const MemoryChoice& choice, OptionValues& values) {
  const auto set = [&](const char* name, const auto& value) { values.set(name, fmt::format("{}", value)); };
  if (!choice.form.empty()) set("form", choice.form);
  if (choice.rank > 0) set("rank", choice.rank);
  if (choice.embedding_rank > 0) set("embedding-rank", choice.embedding_rank);
  set("activations", choice.activations);
  // Words that the call does not name count as a default: Muon may have no cores in this model.
  if (choice.optimizer != optimizer_of(values))
    values.replace("optimizer", choice.optimizer,
                   choice.optimizer == method_of_cores(values, form_of(values, choice)) ? OptionSource::fallback
                                                                                        : OptionSource::flag);
  set("batch", choice.batch);
  set("accumulate", choice.accumulate);
}

std::string difference(const MemoryChoice& choice, const MemoryChoice& from) {
  std::string words;
  const auto add = [&](const char* name, const auto& value, bool differs) {
    if (differs) words += fmt::format("{}--{} {}", words.empty() ? "" : " ", name, value);
  };
  add("form", choice.form, choice.form != from.form);
  add("rank", choice.rank, choice.rank != from.rank);
  add("activations", choice.activations, choice.activations != from.activations);
  add("optimizer", choice.optimizer, choice.optimizer != from.optimizer);
  add("batch", choice.batch, choice.batch != from.batch);
  add("accumulate", choice.accumulate, choice.accumulate != from.accumulate);
  return words;
}

}  // namespace comera::train
