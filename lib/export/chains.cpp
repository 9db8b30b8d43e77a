#include "lib/export/chains.h"

#include <numeric>

#include "lib/core/terminal/stop.h"

namespace comera::exporting {
WeightReader::WeightReader(const io::ModelFolder& folder) : folder_(folder) {
  if (auto block = io::parse_comera_block(folder.config(), folder.config_path())) block_ = std::move(*block);
  io::describe(folder);  // throws if a chain is incomplete
}

WeightReader::WeightReader(const io::ModelFolder& folder, const std::vector<io::ChainSpec>& planned)
    : WeightReader(folder) {
  block_.chains.insert(block_.chains.end(), planned.begin(), planned.end());
  shapes_alone_ = true;
}

std::vector<float> WeightReader::tensor(const std::string& name, const Sizes& shape) const {
  check_stop();
  return shapes_alone_ ? std::vector<float>() : folder_.read_floats(name, shape);
}

const io::ChainSpec* WeightReader::chain_spec(const std::string& name) const {
  for (const io::ChainSpec& spec : block_.chains)
    if (spec.name == name) return &spec;
  return nullptr;
}

StoredChain WeightReader::chain(const io::ChainSpec& spec) const {
  if (!shapes_alone_) return {spec.name, spec.rows(), spec.columns(), io::read_chain(folder_, spec, block_.threshold)};
  const tt::Layout& layout = spec.layout;
  tt::FloatChain shapes;
  shapes.layout = layout;
  if (!layout.empty()) shapes.cores.resize(layout.cores());
  shapes.order.resize(layout.sorted ? static_cast<std::size_t>(spec.rows()) : 0);
  shapes.gauge.resize(layout.gauge ? static_cast<std::size_t>(layout.ranks[layout.middle()]) : 0);
  shapes.exact_ids.resize(static_cast<std::size_t>(layout.exact_rows));
  std::iota(shapes.order.begin(), shapes.order.end(), 0);
  std::iota(shapes.gauge.begin(), shapes.gauge.end(), 0);
  return {spec.name, spec.rows(), spec.columns(), std::move(shapes)};
}

namespace {

Matrix without_numbers(std::int64_t rows, std::int64_t columns) {
  Matrix matrix;
  matrix.rows = rows, matrix.columns = columns;
  return matrix;
}

}  // namespace

Matrix WeightReader::linear(const std::string& name, std::int64_t in, std::int64_t out) const {
  if (shapes_alone_) return without_numbers(in, out);
  const io::ChainSpec* spec = chain_spec(name);
  if (!spec) return tt::transposed(Matrix(out, in, folder_.read_floats(name + ".weight", {out, in})));
  return tt::expand(chain(*spec).numbers);
}

Matrix WeightReader::table(const std::string& name, std::int64_t rows, std::int64_t columns) const {
  if (shapes_alone_) return without_numbers(rows, columns);
  const io::ChainSpec* spec = chain_spec(name);
  if (!spec) return {rows, columns, folder_.read_floats(name + ".weight", {rows, columns})};
  return tt::first_rows(tt::expand(chain(*spec).numbers), rows);
}

}  // namespace comera::exporting
