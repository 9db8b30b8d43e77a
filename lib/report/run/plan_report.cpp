#include "lib/report/run/plan_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "lib/core/reals.h"

namespace comera::report {
namespace {

io::TensorForm form_of(const layers::ChainParameters& chain, std::size_t element) {
  io::TensorForm form;
  form.name = chain.name + ".weight";
  form.kind = chain.layout.kind == tt::Kind::ttm ? "embedding" : "linear";
  form.form = io::form_name(chain.layout, layers::name_of(chain.between));
  form.shape = {chain.rows, chain.columns};
  form.layout = chain.layout;
  form.initial_ranks = chain.initial_ranks;
  form.parameters_dense = chain.rows * chain.columns;
  for (const layers::Parameter* core : chain.cores) form.parameters += core->shape.elements();
  for (const layers::Parameter* diagonal : chain.diagonals) form.rank_entries += diagonal->shape.elements();
  if (chain.exact_rows) form.parameters += chain.exact_rows->shape.elements();
  form.bytes = static_cast<std::uint64_t>(form.parameters + form.rank_entries) * element;
  form.bytes_dense = static_cast<std::uint64_t>(form.parameters_dense) * element;
  return form;
}

const char* kind_of(const layers::Parameter& parameter) {
  if (parameter.name.ends_with("bias")) return "bias";
  if (parameter.shape.dims() == 1) return "norm";
  return parameter.name.find("embed") != std::string::npos ? "embedding" : "linear";
}

io::TensorForm form_of(const layers::Parameter& parameter, std::size_t element) {
  io::TensorForm form;
  form.name = parameter.name;
  form.kind = kind_of(parameter);
  form.form = "dense";
  const auto sizes = parameter.shape.sizes();
  form.shape.assign(sizes.begin(), sizes.end());
  if (parameter.transposed_in_file) std::reverse(form.shape.begin(), form.shape.end());
  form.parameters = form.parameters_dense = parameter.shape.elements();
  form.bytes = form.bytes_dense = static_cast<std::uint64_t>(form.parameters) * element;
  return form;
}

Cell bytes_cell(std::size_t bytes) { return static_cast<std::int64_t>(bytes); }

}  // namespace

ModelReport report_of(const layers::Model& model, const std::string& name) {
  constexpr std::size_t element = sizeof(float);
  ModelReport report;
  report.path = name;
  std::set<const layers::Parameter*> in_chains;
  for (const layers::ChainParameters& chain : model.chains()) {
    report.layers.push_back(form_of(chain, element));
    in_chains.insert(chain.cores.begin(), chain.cores.end());
    in_chains.insert(chain.diagonals.begin(), chain.diagonals.end());
    in_chains.insert(chain.exact_rows);
  }
  for (const layers::Parameter& parameter : model.parameters().all())
    if (!in_chains.contains(&parameter)) report.layers.push_back(form_of(parameter, element));
  const auto before = [](const io::TensorForm& a, const io::TensorForm& b) { return io::natural_less(a.name, b.name); };
  std::sort(report.layers.begin(), report.layers.end(), before);
  for (const io::TensorForm& layer : report.layers) report.totals.add(layer);
  return report;
}

Table memory_table(const engine::MemoryTable& memory) {
  Table table;
  table.columns = {{"kind", "planned memory"}, {"bytes", "bytes", Unit::bytes}};
  for (int category = 0; category < plan::categories; ++category)
    table.rows.push_back({std::string(plan::name_of(static_cast<plan::Category>(category))),
                          bytes_cell(memory.of(static_cast<plan::Category>(category)))});
  table.totals.push_back({std::string("peak"), bytes_cell(memory.peak)});
  return table;
}

Table memory_by_place(const engine::MemoryTable& memory) {
  Table table;
  table.columns = {
      {"place", "place"}, {"kind", "kind"}, {"tensors", "tensors", Unit::count}, {"bytes", "bytes", Unit::bytes}};
  for (const engine::MemoryTable::Row& row : memory.rows)
    table.rows.push_back(
        {row.group, std::string(plan::name_of(row.category)), std::int64_t{row.tensors}, bytes_cell(row.bytes)});
  return table;
}

Json memory_json(const engine::MemoryTable& memory) {
  Json json;
  for (int category = 0; category < plan::categories; ++category)
    json[plan::name_of(static_cast<plan::Category>(category))] = memory.of(static_cast<plan::Category>(category));
  json["peak"] = memory.peak;
  return json;
}

Json to_json(const RunPlan& plan) {
  Json json = to_json(plan.model);
  json["kind"] = "plan";
  json.erase("file_bytes");
  json["memory"] = memory_json(plan.memory);
  json["memory_by_place"] = to_json(memory_by_place(plan.memory));
  json["tokens_per_step"] = plan.tokens_per_step;
  json["flops_per_step"] = plan.memory.flops;
  return json;
}

std::string to_text(const RunPlan& plan) {
  const Totals& totals = plan.model.totals;
  std::string out = fmt::format("{} parameters ({} dense, ratio {}), {} rank entries\n",
                                show(static_cast<double>(totals.parameters), Unit::count),
                                show(static_cast<double>(totals.parameters_dense), Unit::count),
                                show(totals.ratio(), Unit::ratio), totals.rank_entries);
  out += fmt::format("{} GFLOP and {} tokens per step\n\n", format_digits(plan.memory.flops * 1e-9, 3),
                     plan.tokens_per_step);
  return out + render(memory_table(plan.memory), Format::table);
}

}  // namespace comera::report
