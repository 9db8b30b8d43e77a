#include "models/dlrm/dlrm_spec.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "kernels/interaction.h"
#include "lib/core/error.h"

namespace comera::models {
namespace {

std::vector<MlpLayer> layers_of(const char* prefix, std::int64_t in, std::vector<std::int64_t> widths,
                                std::int64_t out) {
  widths.push_back(out);
  std::vector<MlpLayer> layers;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    layers.push_back({fmt::format("{}.{}", prefix, 2 * i), in, widths[i]});
    in = widths[i];
  }
  return layers;
}

}  // namespace

std::string table_name(std::size_t index) { return fmt::format("emb_l.{}", index); }

std::vector<MlpLayer> bottom_layers(const DlrmSpec& spec) {
  return layers_of("bot_l", spec.numbers(), spec.bottom, spec.hidden);
}

std::vector<MlpLayer> top_layers(const DlrmSpec& spec) {
  return layers_of("top_l", kernels::interaction_columns(spec.vectors(), spec.hidden), spec.top, 1);
}

double table_deviation(std::int64_t rows) { return std::max(0.01, 1 / std::sqrt(3 * static_cast<double>(rows))); }

DlrmSpec with_head(const DlrmSpec& spec, Task task, const std::vector<std::string>&) {
  if (task != Task::ctr) fail_input("[model] a DLRM predicts clicks from numbers and categories; use --task ctr");
  return spec;
}

std::vector<WeightSite> weight_sites(const DlrmSpec& spec) {
  std::vector<WeightSite> sites;
  for (std::size_t i = 0; i < spec.inputs.categories.size(); ++i)
    sites.push_back({table_name(i), spec.inputs.categories[i].rows, spec.hidden, true});
  for (const MlpLayer& layer : bottom_layers(spec)) sites.push_back({layer.name, layer.out, layer.in, false});
  for (const MlpLayer& layer : top_layers(spec)) sites.push_back({layer.name, layer.out, layer.in, false});
  sites.pop_back();
  return sites;
}

void check(const DlrmSpec& spec) {
  constexpr std::int64_t widest = 1 << 17;
  if (spec.task != Task::ctr) fail_input("[model] a DLRM predicts clicks from numbers and categories; use --task ctr");
  check_size("embedding_size", spec.hidden, widest);
  for (const std::int64_t width : spec.bottom) check_size("bottom_mlp", width, widest);
  for (const std::int64_t width : spec.top) check_size("top_mlp", width, widest);
  if (spec.bottom.size() > 64 || spec.top.size() > 64) fail_input("[model] an MLP has at most 64 hidden layers");
  if (spec.inputs.categories.empty()) fail_input("[model] a DLRM needs a table; the schema names no categories");
  if (spec.vectors() > kernels::most_vectors)
    fail_input("[model] {} tables are too many; at most {} fit", spec.vectors() - 1, kernels::most_vectors - 1);
  for (const data::CategoryColumn& column : spec.inputs.categories) {
    check_size("rows", column.rows, data::most_rows);
    check_size("most", column.most, data::longest_bag);
  }
}

}  // namespace comera::models
