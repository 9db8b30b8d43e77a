#include "lib/compress/plan/exact_rows.h"

#include <algorithm>
#include <numeric>

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"

namespace comera::compress {

std::vector<std::int32_t> most_frequent_rows(const std::vector<double>& row_weights, std::int64_t count) {
  std::vector<std::int32_t> rows(row_weights.size());
  std::iota(rows.begin(), rows.end(), 0);
  const auto weight = [&](std::int32_t row) { return row_weights[static_cast<std::size_t>(row)]; };
  std::stable_sort(rows.begin(), rows.end(), [&](std::int32_t a, std::int32_t b) { return weight(a) > weight(b); });
  rows.resize(static_cast<std::size_t>(count));
  std::sort(rows.begin(), rows.end());
  return rows;
}

namespace {

// Rows of which the text looks up one or more. Weights are look-ups plus one.
std::int64_t used_rows(const std::vector<double>& row_weights) {
  return std::count_if(row_weights.begin(), row_weights.end(), [](double weight) { return weight > 1; });
}

}  // namespace

std::vector<std::int64_t> exact_row_choices(const LayerPlan& first, const std::vector<double>& row_weights) {
  if (first.layout.exact_rows > 0) return {first.layout.exact_rows};
  std::vector<std::int64_t> choices{0};
  if (!first.exact_of_all) return choices;  // 0 was given
  const std::int64_t most = std::min(used_rows(row_weights), (std::ssize(row_weights) - 1) / 4);
  for (const std::int64_t count : {256, 1024, 4096})
    if (count <= most) choices.push_back(count);
  return choices;
}

Evidence table_evidence(InputMoments* moments, const Candidate& candidate, std::int64_t exact) {
  Evidence evidence;
  if (!moments || !candidate.table) return evidence;
  evidence.row_weights = moments->row_weights(candidate.name);
  evidence.judged_row_weights = moments->judged_row_weights(candidate.name);
  if (exact > 0) evidence.exact_rows = most_frequent_rows(evidence.row_weights, exact);
  return evidence;
}

namespace {

// Returns false if the text has no counts of the table's rows.
bool settle(LayerPlan& plan, InputMoments* moments) {
  if (plan.layout.exact_rows == 0) return true;
  if (!moments)
    fail_input(
        "[tensorize] {}: its {} exact rows are chosen by look-up counts of text; give text with --calibrate, or "
        "leave exact rows out",
        plan.name, plan.layout.exact_rows);
  const std::vector<double> weights = moments->row_weights(plan.name);
  if (weights.empty()) return false;
  const std::int64_t used = used_rows(weights);
  if (used >= plan.layout.exact_rows) return true;
  log_warning("[tensorize] {}: {} exact rows were asked for, but the text uses {} rows; those are kept", plan.name,
              plan.layout.exact_rows, used);
  plan.layout.exact_rows = used;
  return true;
}

constexpr const char* uncounted = "the text does not say how often each of its rows is used";

}  // namespace

void settle_exact_rows(const std::vector<LayerPlan*>& plans, InputMoments* moments) {
  std::vector<LayerPlan*> without;
  bool any = false;
  for (LayerPlan* plan : plans) {
    if (settle(*plan, moments))
      any = any || plan->layout.exact_rows > 0;
    else
      without.push_back(plan);
  }
  for (LayerPlan* plan : without) {
    if (!any || !plan->exact_of_all)
      fail_input("[tensorize] {}: {}; leave its exact rows out, --layer '{}=exact:0'", plan->name, uncounted,
                 plan->name);
    log_warning("[tensorize] {}: {}; it gets no exact rows", plan->name, uncounted);
    plan->layout.exact_rows = 0;
  }
}

}  // namespace comera::compress
