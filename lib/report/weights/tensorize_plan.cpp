// The plan of --dry-run, and the findings of inspect --verify.
#include <algorithm>

#include "lib/report/weights/tensorize_report.h"
#include "lib/report/weights/tensorize_words.h"
#include "lib/report/weights/weight_columns.h"

namespace comera::report {
namespace {

Cell cell_of(const std::optional<double>& value) { return value ? Cell(*value) : Cell(); }

Table layer_columns() {
  Table table{weight_columns(), {}, {}};
  append(table.columns,
         {{"bytes_dense", "before", Unit::bytes}, {"bytes", "after", Unit::bytes}, {"ratio", "ratio", Unit::ratio}});
  return table;
}

std::vector<Cell> first_cells(const std::string& name, bool is_table, const io::FileShape& shape,
                              const std::string& form, const io::ChainSpec* chain, std::uint64_t dense,
                              std::uint64_t bytes) {
  const std::int64_t exact = chain ? chain->layout.exact_rows : 0;
  if (chain && chain->base && chain->layout.empty()) chain = nullptr;  // without a correction there are no ranks
  std::vector<Cell> cells =
      weight_cells(name, is_table ? "embedding" : "linear", shape, form, chain ? chain->layout.modes : io::FileShape{},
                   chain ? chain->layout.ranks : io::FileShape{}, exact);
  append(cells, {whole(dense), whole(bytes),
                 static_cast<double>(dense) / static_cast<double>(std::max<std::uint64_t>(1, bytes))});
  return cells;
}

}  // namespace

Table tensorize_plan(const compress::Tensorizer& tensorizer, std::size_t size) {
  Table table = layer_columns();
  table.columns.push_back({"reason", "why dense"});
  table.dispensable = {"kind", "modes", "shape", "ratio", "bytes_dense"};
  for (const compress::LayerJob& job : tensorizer.jobs()) {
    const compress::Candidate& candidate = job.candidate;
    const compress::LayerPlan& plan = job.sizes[size].plan;
    const std::optional<io::ChainSpec> chain = job.chain(size);
    std::vector<Cell> row =
        first_cells(weight_name(candidate.name, candidate.bare(), tensorizer.format()), candidate.table,
                    candidate.shape, chain && chain->base ? io::form_name(*chain) : compress::name_of(plan.form),
                    chain ? &*chain : nullptr, candidate.bytes(), compress::planned_bytes(plan, candidate));
    row.push_back(text_or_nothing(plan.reason));
    table.rows.push_back(std::move(row));
  }
  const compress::RequestedSize& planned = tensorizer.sizes()[size];
  const std::uint64_t dense = tensorizer.file_bytes_dense();
  std::vector<Cell> total(table.columns.size());
  total[0] = tensorizer.format().name;
  total[6] = whole(dense);
  total[7] = whole(planned.file_bytes);
  total[8] = static_cast<double>(dense) / static_cast<double>(planned.file_bytes);
  table.totals.push_back(std::move(total));
  if (!planned.counted_bytes) return table;
  std::vector<Cell> counted(table.columns.size());
  counted[0] = std::string("exported ONNX");
  counted[7] = whole(*planned.counted_bytes);
  table.totals.push_back(std::move(counted));
  return table;
}

Json plan_json(const compress::Tensorizer& tensorizer, std::size_t size) {
  const compress::RequestedSize& planned = tensorizer.sizes()[size];
  Json json{{"output", planned.output},
            {"file_bytes", planned.file_bytes},
            {"file_bytes_dense", tensorizer.file_bytes_dense()}};
  if (planned.counted_bytes) json["onnx_bytes"] = *planned.counted_bytes;
  const compress::CalibrationNeeds needs = tensorizer.calibration_needs();
  json["calibration_bytes"] = needs.memory;
  json["calibration_scratch_bytes"] = needs.scratch;
  json["layers"] = to_json(tensorize_plan(tensorizer, size));
  return json;
}

LayerLines tensorize_plan_lines(const compress::Tensorizer& tensorizer, std::size_t size) {
  Table table = tensorize_plan(tensorizer, size);
  const auto form = static_cast<std::size_t>(table.column("form")),
             reason = static_cast<std::size_t>(table.column("reason"));
  Reasons reasons;
  for (std::vector<Cell>& row : table.rows)
    if (const auto* why = std::get_if<std::string>(&row[reason]))
      row[form] = reasons.marked(std::get<std::string>(row[form]), *why);
  table.columns.pop_back();
  for (auto* rows : {&table.rows, &table.totals})
    for (std::vector<Cell>& row : *rows) row.pop_back();
  return {without_empty_columns(table), reasons.lines()};
}

Table verification_table(const compress::Verification& verification) {
  Table table;
  table.columns = {{"name", "weight"},
                   {"rel_error", "weight error", Unit::error},
                   {"stored_rel_error", "certified weight error", Unit::error},
                   {"output_error", "output error", Unit::error},
                   {"stored_output_error", "certified output error", Unit::error},
                   {"direction_error", "direction error", Unit::error},
                   {"stored_direction_error", "certified direction error", Unit::error},
                   {"fault", "fault"}};
  for (const compress::LayerCheck& layer : verification.layers)
    table.rows.push_back({layer.name, layer.rel_error, layer.stored_rel_error, cell_of(layer.output_error),
                          cell_of(layer.stored_output_error), cell_of(layer.direction_error),
                          cell_of(layer.stored_direction_error), text_or_nothing(layer.fault)});
  for (const compress::OtherFault& other : verification.other_faults)
    table.rows.push_back({other.name, Cell(), Cell(), Cell(), Cell(), Cell(), Cell(), other.fault});
  return table;
}

Json to_json(const compress::Verification& verification) {
  Json json = document("verify");
  json["holds"] = verification.holds();
  json["layers"] = to_json(verification_table(verification));
  json["other_tensors"] = verification.others;
  return json;
}

}  // namespace comera::report
