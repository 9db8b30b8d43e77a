#include "lib/report/run/explanation.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "lib/core/units.h"

namespace comera::report {
namespace {

using train::MemoryChoice;
using train::PlannedChoice;

Cell bytes_cell(std::size_t bytes) { return static_cast<std::int64_t>(bytes); }

std::vector<Column> choice_columns() {
  return {{"verdict", ""},
          {"form", "form"},
          {"rank", "rank"},
          {"activations", "activations"},
          {"optimizer", "optimizer"},
          {"batch", "batch", Unit::count},
          {"accumulate", "accumulate", Unit::count},
          {"bytes", "planned", Unit::bytes},
          {"work", "FLOPs", Unit::ratio},
          {"ms", "ms"}};
}

// `flops`: those of the first row, to which the others are compared.
std::vector<Cell> row_of(const std::string& verdict, const PlannedChoice& row, double flops) {
  const MemoryChoice& choice = row.choice;
  const bool planned = row.step.refused.empty();
  return {verdict,
          choice.form.empty() ? Cell() : choice.form,
          choice.rank > 0 ? Cell(choice.rank) : Cell(),
          choice.activations,
          choice.optimizer,
          choice.batch,
          choice.accumulate,
          planned ? bytes_cell(row.step.bytes) : Cell(),
          planned && flops > 0 ? Cell(row.step.memory.flops / flops) : Cell(),
          row.step.ms ? Cell(*row.step.ms) : Cell()};
}

const char* verdict_of(const train::Fit& fit, std::size_t index) {
  if (index == fit.chosen) return "chosen";
  if (!fit.rows[index].step.refused.empty()) return "not possible";
  return fit.rows[index].step.bytes >= fit.limit ? "too large" : "gives up more";
}

bool fits(const train::Fit& fit, const PlannedChoice& row) {
  return row.step.refused.empty() && row.step.bytes < fit.limit;
}

// The row of a policy that stands for its other micro-batches: the first one that fits, else the last one.
bool shown(const train::Fit& fit, std::size_t i) {
  const auto& rows = fit.rows;
  const auto same = [&](std::size_t other) { return rows[i].choice.same_policy(rows[other].choice); };
  if (!fits(fit, rows[i])) {
    if (i + 1 < rows.size() && same(i + 1)) return false;
    for (std::size_t before = i; before-- > 0 && same(before);)
      if (fits(fit, rows[before])) return false;
    return true;
  }
  return i == 0 || !same(i - 1) || !fits(fit, rows[i - 1]);
}

double flops_of_first(const std::vector<PlannedChoice>& rows) {
  return rows.empty() ? 0 : rows.front().step.memory.flops;
}

// Each reason once.
std::string reasons_of(const std::vector<PlannedChoice>& rows) {
  std::set<std::string> reasons;
  std::string lines;
  for (const PlannedChoice& row : rows)
    if (!row.step.refused.empty() && reasons.insert(row.step.refused).second)
      lines += "not possible: " + row.step.refused + "\n";
  return lines;
}

}  // namespace

Table work_table(const engine::MemoryTable& memory) {
  Table table;
  table.columns = {{"part", "part of a step"}, {"gflop", "GFLOP"}};
  const double update = memory.flops - memory.forward_flops - memory.backward_flops;
  table.rows = {{std::string("forward"), memory.forward_flops * 1e-9},
                {std::string("backward"), memory.backward_flops * 1e-9},
                {std::string("update"), update * 1e-9}};
  table.totals = {{std::string("step"), memory.flops * 1e-9}};
  return table;
}

Table tensors_table(const std::vector<plan::PlannedTensor>& tensors) {
  constexpr std::size_t most = 12;
  Table table;
  table.columns = {{"name", "largest tensors at the peak"},
                   {"shape", "shape", Unit::sizes},
                   {"dtype", "type"},
                   {"kind", "kind"},
                   {"bytes", "bytes", Unit::bytes}};
  for (const plan::PlannedTensor& tensor : tensors) {
    if (table.rows.size() == most) break;
    const auto sizes = tensor.shape.sizes();
    table.rows.push_back({tensor.name, std::vector<std::int64_t>(sizes.begin(), sizes.end()),
                          std::string(name_of(tensor.dtype)), std::string(plan::name_of(tensor.category)),
                          bytes_cell(tensor.bytes)});
  }
  return table;
}

Table policies_table(const std::vector<PlannedChoice>& rows, const MemoryChoice& current) {
  Table table;
  table.columns = choice_columns();
  table.columns[0].title = "policies";
  for (const PlannedChoice& row : rows)
    table.rows.push_back(row_of(row.choice == current      ? "this plan"
                                : row.step.refused.empty() ? "possible"
                                                           : "not possible",
                                row, flops_of_first(rows)));
  return without_empty_columns(table);
}

Table fit_table(const train::Fit& fit) {
  Table table;
  table.columns = choice_columns();
  table.columns[0].title = "--fit " + format_bytes(fit.limit);
  for (std::size_t i = 0; i < fit.rows.size(); ++i) {
    const bool later_form = i > fit.chosen && !fit.rows[i].choice.same_form(fit.rows[fit.chosen].choice);
    if (!later_form && shown(fit, i))
      table.rows.push_back(row_of(verdict_of(fit, i), fit.rows[i], flops_of_first(fit.rows)));
  }
  return without_empty_columns(table);
}

void add_to(Json& json, const engine::MemoryTable& memory, const Explanation& explanation) {
  Json assumed = Json::object();
  for (const auto& [name, value] : explanation.assumed) assumed[name] = value;
  json["assumed"] = assumed;
  json["flops"] = {{"forward", memory.forward_flops},
                   {"backward", memory.backward_flops},
                   {"update", memory.flops - memory.forward_flops - memory.backward_flops}};
  json["largest_tensors"] = to_json(tensors_table(explanation.tensors));
  json["policies"] = to_json(policies_table(explanation.policies, explanation.current));
}

void add_to(Json& json, const train::Fit& fit) {
  Table table;
  table.columns = choice_columns();
  for (std::size_t i = 0; i < fit.rows.size(); ++i)
    table.rows.push_back(row_of(verdict_of(fit, i), fit.rows[i], flops_of_first(fit.rows)));
  json["fit"] = {{"limit", fit.limit}, {"chosen", fit.chosen}, {"choices", to_json(table)}};
}

std::string notes(const std::vector<PlannedChoice>& rows) {
  const bool timed = std::any_of(rows.begin(), rows.end(), [](const PlannedChoice& row) { return row.step.ms; });
  return reasons_of(rows) + "FLOPs are relative to the first row." +
         (timed ? " ms: of a step, predicted from the time of a few sequences or of the first tokens of one.\n" : "\n");
}

std::string to_text(const train::Fit& fit) {
  const PlannedChoice& chosen = fit.rows[fit.chosen];
  return fmt::format(
      "--fit {} chose {}, planned {}", format_bytes(fit.limit),
      train::difference(chosen.choice, {.activations = {}, .optimizer = {}, .batch = 0, .accumulate = 0}),
      format_bytes(chosen.step.bytes));
}

}  // namespace comera::report
