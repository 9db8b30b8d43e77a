#include "lib/compress/plan/plan.h"

#include <algorithm>

#include "lib/core/error.h"
#include "lib/core/options/rule.h"
#include "lib/core/terminal/log.h"
#include "lib/core/units.h"
#include "lib/tt/modes.h"

namespace comera::compress {
namespace {

using io::FileShape;

constexpr PlannedForm forms[] = {PlannedForm::keep_dense, PlannedForm::automatic, PlannedForm::tt,
                                 PlannedForm::ttm,        PlannedForm::lowrank,   PlannedForm::grid};

// Entry sizes of the layout without an identity block, whose size is not known before the ranks are.
tt::Sizes entry_sizes(tt::Layout layout) {
  layout.gauge = false;
  return layout.entry_sizes();
}

void parse_rule_item(LayerRule& rule, const Rule& words, const Rule::Item& item) {
  if (item.key == "rank") {
    rule.rank = rule_rank(words, "[tensorize]", item.value);
  } else if (item.key == "form") {
    rule.form = form_named(item.value);
    if (!rule.form || rule.form == PlannedForm::grid)
      fail_rule(words, "[tensorize]",
                fmt::format("there is no form '{}'; use dense, auto, tt, ttm or lowrank", printable(item.value)));
  } else if (item.key == "modes") {
    const tt::Sides sides = tt::parse_sides(item.value);
    rule.in_modes = sides.in;
    rule.out_modes = sides.out;
  } else if (const auto rows = parse_integer(item.value); item.key == "exact" && rows) {
    rule.exact = rows;
  } else if (item.key == "gauge" && (item.value == "on" || item.value == "off")) {
    rule.gauge = item.value == "on";
  } else if (item.key == "bits" && grid_of_bits(item.value)) {
    rule.grid = grid_of_bits(item.value);
  } else if (item.key == "group" && (item.value == "32" || item.value == "64" || item.value == "128")) {
    rule.group = parse_integer(item.value);
  } else if (item.key == "cores" && (item.value == "4" || item.value == "8")) {
    rule.cores = grid_of_bits(item.value);
  } else if (item.key == "cores" && item.value == "16") {
    rule.cores.emplace();
  } else {
    fail_unknown(words, "[tensorize]", item,
                 "rank:, form:, modes:, gauge:on|off, exact: (a number of rows), bits:2|3|4|8, group:32|64|128 or "
                 "cores:4|8|16");
  }
}

// The rank of every bond. The middle bond (ttm: every inner bond) is at most `rank`; all others are as large as their
// neighbours allow.
tt::Sizes ranks_of(const tt::Layout& layout, std::int64_t rank) {
  if (!layout.ranks.empty()) return layout.ranks;
  const tt::Sizes sizes = entry_sizes(layout);
  tt::Sizes ranks = tt::largest_ranks(sizes);
  for (std::size_t k = 1; k + 1 < ranks.size(); ++k)
    if (layout.kind == tt::Kind::ttm || k == layout.middle()) ranks[k] = std::min(ranks[k], rank);
  for (std::size_t k = 1; k < ranks.size(); ++k) ranks[k] = std::min(ranks[k], ranks[k - 1] * sizes[k - 1]);
  for (std::size_t k = ranks.size() - 1; k-- > 0;) ranks[k] = std::min(ranks[k], ranks[k + 1] * sizes[k]);
  return ranks;
}

// Requires that every bond is at most as large as its neighbours allow. Otherwise the chain would be smaller than the
// plan.
void check_ranks(const tt::Layout& layout, const std::string& where) {
  const tt::Sizes sizes = entry_sizes(layout), &ranks = layout.ranks;
  if (ranks.front() != 1 || ranks.back() != 1) fail_input("{}: the first and the last of \"ranks\" must be 1", where);
  const tt::Sizes largest = tt::largest_ranks(sizes);
  for (std::size_t k = 1; k + 1 < ranks.size(); ++k) {
    const std::int64_t limit = std::min({largest[k], ranks[k - 1] * sizes[k - 1], ranks[k + 1] * sizes[k]});
    if (ranks[k] > limit)
      fail_input("{}: rank {} at bond {} exceeds {}, the largest that its neighbours allow", where, ranks[k], k, limit);
  }
}

void check_exact_rows(std::int64_t count, const Candidate& candidate, const std::string& where) {
  if (count != 0 && !candidate.table)
    fail_input("{}: exact rows are those of a table that is looked up; a linear layer has none", where);
  if (count < 0 || (count > 0 && count >= candidate.in()))
    fail_input(
        "{}: {} exact rows are not between 0 and {}, one below the {} rows of the table; to keep all of them leave the "
        "table dense",
        where, count, candidate.in() - 1, candidate.in());
}

}  // namespace

const char* name_of(PlannedForm form) {
  switch (form) {
    case PlannedForm::keep_dense: return "dense";
    case PlannedForm::automatic: return "auto";
    case PlannedForm::tt: return "tt";
    case PlannedForm::ttm: return "ttm";
    case PlannedForm::grid: return "grid";
    case PlannedForm::lowrank: break;
  }
  return "lowrank";
}

std::optional<PlannedForm> form_named(std::string_view word) {
  for (const PlannedForm form : forms)
    if (word == name_of(form)) return form;
  return std::nullopt;
}

std::optional<quant::Grid> grid_of_bits(std::string_view bits) {
  for (const quant::Grid grid : {quant::Grid::q8_0, quant::Grid::q4_0, quant::Grid::q3_0, quant::Grid::q2_0})
    if (bits == std::to_string(quant::bits_of(grid))) return grid;
  return std::nullopt;
}

bool has_modes(PlannedForm form) { return form == PlannedForm::tt || form == PlannedForm::ttm; }

LayerRule parse_layer_rule(const std::string& text) {
  const Rule words = parse_rule(text, "[tensorize]");
  LayerRule rule;
  rule.text = text;
  rule.pattern = words.pattern;
  for (const Rule::Item& item : words.items) parse_rule_item(rule, words, item);
  if (!rule.group) return rule;
  if (!rule.grid) fail_rule(words, "[tensorize]", "group: is that of bits; add bits:2, bits:3 or bits:4");
  rule.grid = quant::in_groups(*rule.grid, *rule.group);
  if (!rule.grid) fail_rule(words, "[tensorize]", "8 bits have groups of 32 alone; leave out group:");
  return rule;
}

io::ChainSpec chain_of(const LayerPlan& plan, const Candidate& candidate) {
  io::ChainSpec chain;
  chain.name = candidate.name;
  chain.shape = candidate.shape;
  chain.folded = true;
  chain.bare = candidate.bare();
  chain.conv1d = !candidate.table && candidate.conv1d;
  chain.dense_type = candidate.type;
  tt::Layout& layout = chain.layout = plan.layout;
  if (!has_modes(plan.form))
    layout = candidate.table ? tt::ttm_layout({candidate.in(), 1}, {1, candidate.out()}, {})
                             : tt::tt_layout({candidate.in()}, {candidate.out()}, {});
  if (plan.form == PlannedForm::grid) {
    chain.base = plan.grid;
    if (plan.rank > 0) chain.cores = plan.cores;
    layout.ranks = {1, plan.rank, 1};
    layout.exact_rows = plan.layout.exact_rows;
    chain.initial_ranks = {1, std::max<std::int64_t>(plan.rank, 1), 1};
    return chain;
  }
  layout.ranks = ranks_of(layout, plan.rank);
  chain.cores = plan.cores;
  layout.gauge = plan.layout.gauge && !plan.cores && !chain.table() && layout.cores() == layout.inputs() + 1;
  layout.exact_rows = plan.layout.exact_rows;
  chain.initial_ranks = layout.ranks;
  return chain;
}

void set_modes(LayerPlan& plan, const tt::Sizes& in, const tt::Sizes& out) {
  tt::Layout& layout = plan.layout;
  layout.kind = plan.form == PlannedForm::ttm ? tt::Kind::ttm : tt::Kind::tt;
  layout.modes = in;
  layout.modes.insert(layout.modes.end(), out.begin(), out.end());
  layout.in_count = in.size();
}

void check_layer(const LayerPlan& plan, const Candidate& candidate, const std::string& where) {
  if (plan.form == PlannedForm::keep_dense) return;
  if (plan.form == PlannedForm::ttm && !candidate.table)
    fail_input("{}: ttm is a form of tables; use tt, lowrank or auto for a linear layer", where);
  if (plan.form == PlannedForm::tt && candidate.table)
    fail_input("{}: tt is a form of linear layers; use ttm, lowrank or auto for a table", where);
  check_exact_rows(plan.layout.exact_rows, candidate, where);
  // Padding rows allow a ttm larger bonds than the table itself could fill.
  if (plan.form == PlannedForm::grid && plan.rank == 0) return;
  const std::int64_t largest =
      plan.layout.ranks.empty() || plan.form == PlannedForm::tt ? std::min(candidate.in(), candidate.out()) : plan.rank;
  if (plan.rank < 1 || plan.rank > largest)
    fail_input("{}: rank {} is not between 1 and {}, the largest possible for {} x {}", where, plan.rank, largest,
               candidate.in(), candidate.out());
  if (!has_modes(plan.form)) return;
  const auto bounded = [](const FileShape& modes) {
    std::int64_t product = 1;
    for (const std::int64_t mode : modes)
      product = product > (std::int64_t{1} << 40) / mode ? (std::int64_t{1} << 40) + 1 : product * mode;
    return product;
  };
  const std::int64_t first = bounded(plan.layout.in_modes()), second = bounded(plan.layout.out_modes());
  const bool padded = plan.form == PlannedForm::ttm;
  if (padded && plan.layout.modes.size() != 2 * plan.layout.in_count)
    fail_input("{}: row and column modes must be equally many", where);
  if (second != candidate.out() ||
      (padded ? first < candidate.in() || first >= 2 * candidate.in() : first != candidate.in()))
    fail_input("{}: the modes multiply to {} and {}, but the weight is {} x {}", where, first, second, candidate.in(),
               candidate.out());
  if (!plan.layout.ranks.empty()) check_ranks(plan.layout, where);
}

std::int64_t break_even_rank(const Candidate& candidate) {
  return candidate.elements() / (candidate.in() + candidate.out());
}

io::StoredType core_type(const io::ChainSpec& chain, io::StoredType dense) {
  return chain.base && io::size_of(dense) > 2 ? io::StoredType::F16 : dense;
}

std::vector<io::TensorToWrite> tensors_of(const io::ChainSpec& chain, io::StoredType dense) {
  const tt::Layout& layout = chain.layout;
  const io::StoredType type = core_type(chain, dense);
  std::vector<io::TensorToWrite> tensors;
  if (chain.base)
    tensors.push_back({chain.base_name(),
                       io::StoredType::U8,
                       {chain.base_lines(), quant::line_bytes(*chain.base, chain.base_numbers())}});
  const std::size_t cores = chain.base && layout.empty() ? 0 : layout.cores();
  for (std::size_t k = 0; k < cores; ++k)
    if (const io::FileShape shape = layout.core_shape(k); chain.cores)
      tensors.push_back(
          {chain.core_name(k), io::StoredType::U8, {quant::line_bytes(*chain.cores, io::elements_of(shape))}});
    else
      tensors.push_back({chain.core_name(k), type, shape});
  if (layout.sorted) tensors.push_back({chain.order_name(), io::StoredType::I32, {chain.rows()}});
  if (layout.gauge) tensors.push_back({chain.gauge_name(), io::StoredType::I32, {layout.ranks[layout.middle()]}});
  if (layout.exact_rows > 0) {
    tensors.push_back({chain.exact_ids_name(), io::StoredType::I32, {layout.exact_rows}});
    tensors.push_back({chain.exact_rows_name(), type, {layout.exact_rows, chain.columns()}});
  }
  return tensors;
}

std::uint64_t chain_bytes(const io::ChainSpec& chain, io::StoredType type) {
  std::uint64_t bytes = 0;
  for (const io::TensorToWrite& tensor : tensors_of(chain, type))
    bytes += static_cast<std::uint64_t>(io::elements_of(tensor.shape)) * io::size_of(tensor.type);
  return bytes;
}

std::uint64_t planned_bytes(const LayerPlan& plan, const Candidate& candidate) {
  return plan.form == PlannedForm::keep_dense ? candidate.bytes()
                                              : chain_bytes(chain_of(plan, candidate), candidate.type);
}

}  // namespace comera::compress
