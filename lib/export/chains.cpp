#include "lib/export/chains.h"

#include <numeric>

#include "lib/core/error.h"
#include "lib/core/terminal/stop.h"
#include "lib/io/chain_parts.h"

namespace comera::exporting {

WeightReader::WeightReader(const io::ModelFolder& folder, TaskProgress* task, OtherForms* others)
    : folder_(folder), task_(task), others_(others) {
  if (auto block = io::parse_comera_block(folder.config(), folder.config_path())) block_ = std::move(*block);
  io::describe(folder);  // throws if a chain is incomplete
  number_chains();
}

WeightReader::WeightReader(const io::ModelFolder& folder, const std::vector<io::ChainSpec>& planned, OtherForms* others)
    : WeightReader(folder, nullptr, others) {
  block_.chains.insert(block_.chains.end(), planned.begin(), planned.end());
  shapes_alone_ = true;
  number_chains();
}

void WeightReader::number_chains() {
  for (std::size_t i = 0; i < block_.chains.size(); ++i) numbers_.emplace(block_.chains[i].name, i);
}

std::vector<float> WeightReader::tensor(const std::string& name, const Sizes& shape) const {
  check_stop();
  if (shapes_alone_) return {};
  count(name);
  return folder_.read_floats(name, shape);
}

void WeightReader::count(const std::string& tensor) const {
  const io::ModelFolder::Entry* entry = task_ ? folder_.find(tensor) : nullptr;
  if (entry) task_->advance(static_cast<std::int64_t>(entry->tensor.bytes()));
}

const io::ChainSpec* WeightReader::stored_spec(const std::string& name) const {
  const auto found = numbers_.find(name);
  return found == numbers_.end() ? nullptr : &block_.chains[found->second];
}

const io::ChainSpec* WeightReader::chain_spec(const std::string& name) const {
  const io::ChainSpec* spec = stored_spec(name);
  return spec && !spec->base ? spec : nullptr;
}

const io::ChainSpec* WeightReader::grid_spec(const std::string& name) const {
  const io::ChainSpec* spec = stored_spec(name);
  return spec && spec->base && !shapes_alone_ ? spec : nullptr;
}

std::span<const std::byte> WeightReader::base_bytes(const io::ChainSpec& spec) const {
  io::read_base(folder_, spec);  // checks them
  count(spec.base_name());
  const io::ModelFolder::Entry& entry = *folder_.find(spec.base_name());
  const io::StoredBytes bytes = folder_.file_of(entry).bytes(entry.tensor);
  COMERA_CHECK(bytes.is_mapped());  // bytes of grids are never made on request
  return bytes.span();
}

void WeightReader::note_widened(const io::ChainSpec& spec) const {
  if (others_) others_->widened.insert(spec.name);
}

StoredChain WeightReader::chain(const io::ChainSpec& spec) const {
  if (others_ && spec.cores) others_->floating.insert(spec.name);
  if (!shapes_alone_)
    for (const io::ChainPart& part : io::parts_of(spec)) count(part.name);
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

Matrix WeightReader::shape_of(const std::string& name, std::int64_t rows, std::int64_t columns) const {
  if (others_ && stored_spec(name)) others_->dense.insert(name);
  Matrix matrix;
  matrix.rows = rows, matrix.columns = columns;
  return matrix;
}

Matrix WeightReader::whole(const io::ChainSpec& spec) const {
  if (others_) others_->dense.insert(spec.name);
  for (const io::ChainPart& part : io::parts_of(spec)) count(part.name);
  return io::read_matrix(folder_, spec, block_.threshold);
}

Matrix WeightReader::linear(const std::string& name, std::int64_t in, std::int64_t out, bool conv1d) const {
  if (shapes_alone_) return shape_of(name, in, out);
  const io::ChainSpec* spec = stored_spec(name);
  if (!spec) count(name + ".weight");
  if (!spec && conv1d) return {in, out, folder_.read_floats(name + ".weight", {in, out})};
  if (!spec) return tt::transposed(Matrix(out, in, folder_.read_floats(name + ".weight", {out, in})));
  return whole(*spec);
}

Matrix WeightReader::table(const std::string& name, std::int64_t rows, std::int64_t columns) const {
  if (shapes_alone_) return shape_of(name, rows, columns);
  const io::ChainSpec* spec = stored_spec(name);
  if (!spec) count(name + ".weight");
  if (!spec) return {rows, columns, folder_.read_floats(name + ".weight", {rows, columns})};
  return whole(*spec);
}

Matrix WeightReader::as_stored(const io::ChainSpec& spec) const {
  Matrix weight = whole(spec);
  return spec.table() || spec.conv1d ? weight : tt::transposed(weight);
}

io::StoredType WeightReader::dense_type(const io::ChainSpec& spec) const { return io::dense_type_of(folder_, spec); }

}  // namespace comera::exporting
