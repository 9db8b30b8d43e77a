#include "lib/train/fit/fit.h"

#include <algorithm>

#include "lib/core/error.h"
#include "lib/core/units.h"

namespace comera::train {
namespace {

PlannedStep plan_choice(const OptionValues& values, const MemoryChoice& choice, const PlanStep& plan) {
  OptionValues chosen = values;
  try {
    apply(choice, chosen);  // may be beyond the limit of an option, such as the most micro-batches
    return plan(chosen);
  } catch (const InputError& error) {
    return {.memory = {}, .refused = error.what()};
  }
}

bool fits(const PlannedChoice& row, std::size_t limit) { return row.step.refused.empty() && row.step.bytes < limit; }

constexpr const char* smaller_batch_of_pairs =
    "; --batch stays as it is, because the other pairs of a micro-batch are a pair's negatives";

// "weights 2.5 MiB, saved 208 MiB; the largest part is layer.y (124 MiB)"
std::string parts_of(const engine::MemoryTable& memory) {
  using plan::Category;
  std::string parts;
  for (int category = 0; category < plan::categories; ++category) {
    const auto kind = static_cast<Category>(category);
    if (memory.of(kind) > 0)
      parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", plan::name_of(kind), format_bytes(memory.of(kind)));
  }
  if (memory.rows.empty()) return parts;
  return fmt::format("{}; the largest part is {} ({})", parts, memory.rows[0].group,
                     format_bytes(memory.rows[0].bytes));
}

[[noreturn]] void fail_below(const OptionValues& values, std::size_t limit, const std::vector<PlannedChoice>& rows) {
  const auto least = std::min_element(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.step.refused.empty() != b.step.refused.empty() ? a.step.refused.empty() : a.step.bytes < b.step.bytes;
  });
  const bool may_be_smaller = values.table().find("form") && values.text("form") != "auto";
  fail_input("[{}] --fit {}: at least {} are needed, by {} ({}); use --fit {} or more, a smaller model or --seq{}{}",
             values.table().verb(), format_bytes(limit), format_bytes(least->step.bytes),
             difference(least->choice, MemoryChoice{.batch = 0, .accumulate = 0}), parts_of(least->step.memory),
             fmt::format("{}MiB", (least->step.bytes >> 20) + 1), may_be_smaller ? ", or --form auto" : "",
             keeps_batch(values) ? smaller_batch_of_pairs : "");
}

}  // namespace

std::vector<PlannedChoice> plan_choices(const OptionValues& values, const std::vector<MemoryChoice>& choices,
                                        const PlanStep& plan) {
  std::vector<PlannedChoice> rows;
  bool possible = false, any = false;
  for (const MemoryChoice& choice : choices) {
    const bool other_form = rows.empty() || !choice.same_form(rows.back().choice);
    if (!other_form && !possible) continue;
    rows.push_back({choice, plan_choice(values, choice, plan)});
    if (other_form) possible = rows.back().step.refused.empty();
    any = any || possible;
  }
  if (!any) fail_input("{}", rows.front().step.refused);
  return rows;
}

Fit fit(const OptionValues& values, std::size_t limit, const RankCeiling& ceiling, const PlanStep& plan) {
  Fit fit{limit, plan_choices(values, memory_choices(values, FreeOptions::open, ceiling), plan)};
  const auto chosen =
      std::find_if(fit.rows.begin(), fit.rows.end(), [&](const PlannedChoice& row) { return fits(row, limit); });
  if (chosen == fit.rows.end()) fail_below(values, limit, fit.rows);
  fit.chosen = static_cast<std::size_t>(chosen - fit.rows.begin());
  return fit;
}

std::string next_cheaper(const OptionValues& values, std::size_t bytes, std::size_t free, const PlanStep& plan) {
  const MemoryChoice now = current_choice(values);
  std::vector<MemoryChoice> choices = memory_choices(values, FreeOptions::all, {});
  if (const auto here = std::find(choices.begin(), choices.end(), now); here != choices.end())
    choices.erase(choices.begin(), here + 1);
  for (const MemoryChoice& choice : choices) {
    const PlannedStep step = plan_choice(values, choice, plan);
    if (step.refused.empty() && step.bytes < bytes && (free == 0 || step.bytes <= free))
      return fmt::format("{} needs {} by plan; --fit SIZE chooses by itself", difference(choice, now),
                         format_bytes(step.bytes));
  }
  return fmt::format("no --activations{} needs little enough; use a smaller model or --seq{}",
                     keeps_batch(values) ? " or --optimizer" : ", --optimizer or --batch",
                     keeps_batch(values) ? smaller_batch_of_pairs : "");
}

}  // namespace comera::train
