// Reads the tensors of a chain and checks them completely.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"
#include "lib/io/tt_format.h"

namespace comera::io {
namespace {

std::vector<float> finite_floats(const ModelFolder& folder, const std::string& name, const FileShape& shape) {
  std::vector<float> values = folder.read_floats(name, shape);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i]))
      fail_input("{}: tensor {}: its element {} is {}; the file is damaged or its training diverged, use another one",
                 folder.path(), name, i, values[i]);
  return values;
}

}  // namespace

std::vector<std::int32_t> distinct_indices(const ModelFolder& folder, const std::string& name, std::int64_t count,
                                           std::int64_t limit) {
  const ModelFolder::Entry* entry = folder.find(name);
  if (!entry) fail_input("{}: tensor {} is missing, though config.json describes its chain", folder.path(), name);
  if (entry->tensor.type != StoredType::I32 || entry->tensor.shape != FileShape{count})
    fail_input("{}: tensor {}: expected I32 {}, found {} {}", folder.path(), name, to_string({count}),
               name_of(entry->tensor.type), to_string(entry->tensor.shape));
  std::vector<std::int32_t> indices(static_cast<std::size_t>(count));
  if (!indices.empty())
    std::memcpy(indices.data(), folder.file_of(*entry).bytes(entry->tensor).data(), entry->tensor.bytes());
  std::vector<bool> seen(static_cast<std::size_t>(limit));
  for (const std::int32_t index : indices) {
    if (index < 0 || index >= limit || seen[static_cast<std::size_t>(index)])
      fail_input("{}: tensor {}: {} is not one of {} different numbers below {}; the file is damaged", folder.path(),
                 name, index, count, limit);
    seen[static_cast<std::size_t>(index)] = true;
  }
  return indices;
}

std::vector<std::int32_t> rising_indices(const ModelFolder& folder, const std::string& name, std::int64_t count,
                                         std::int64_t limit) {
  std::vector<std::int32_t> indices = distinct_indices(folder, name, count, limit);
  if (!std::is_sorted(indices.begin(), indices.end()))
    fail_input("{}: tensor {}: its ids do not rise; the file is damaged", folder.path(), name);
  return indices;
}

namespace {

void multiply_columns(std::vector<float>& core, const std::vector<float>& diagonal, std::optional<double> threshold) {
  for (std::size_t i = 0; i < core.size(); ++i) {
    const float entry = diagonal[i % diagonal.size()];
    core[i] *= !threshold || entry > *threshold ? entry : 0.0f;
  }
}

// A tensor of codes with its lines and the bytes of each.
const ModelFolder::Entry& codes_in(const ModelFolder& folder, const std::string& name, const FileShape& shape) {
  const ModelFolder::Entry* entry = folder.find(name);
  if (!entry || entry->tensor.type != StoredType::U8 || entry->tensor.shape != shape)
    fail_input("{}: tensor {} must be U8 {}, as config.json describes it", folder.path(), printable(name),
               to_string(shape));
  return *entry;
}

void require_finite_scales(const ModelFolder& folder, const std::string& name, std::span<const float> line,
                           std::int64_t number) {
  if (!std::ranges::all_of(line, [](float value) { return std::isfinite(value); }))
    fail_input("{}: tensor {}: a scale of line {} is not finite; the file is damaged", folder.path(), printable(name),
               number);
}

}  // namespace

StoredType dense_type_of(const ModelFolder& folder, const ChainSpec& chain) {
  if (chain.base || chain.cores) return chain.dense_type;
  const ModelFolder::Entry* first = folder.find(chain.core_name(0));
  return first ? first->tensor.type : StoredType::F32;
}

std::vector<float> read_core(const ModelFolder& folder, const ChainSpec& spec, std::size_t k) {
  const std::string name = spec.core_name(k);
  const FileShape shape = spec.layout.core_shape(k);
  if (!spec.cores) return finite_floats(folder, name, shape);
  std::vector<float> core(static_cast<std::size_t>(elements_of(shape)));
  const ModelFolder::Entry& entry = codes_in(folder, name, {quant::line_bytes(*spec.cores, std::ssize(core))});
  quant::decode_line(*spec.cores, folder.file_of(entry).bytes(entry.tensor).span(), core);
  require_finite_scales(folder, name, core, 0);
  return core;
}

tt::FloatChain read_chain(const ModelFolder& folder, const ChainSpec& spec, std::optional<double> threshold) {
  if (!spec.between.empty())
    fail_input(
        "{}: {} has {} between its two factors, so it is no matrix that could be exported or compared; models with "
        "--between are for evaluate, predict and finetune",
        folder.path(), printable(spec.name), spec.between);
  const tt::Layout& layout = spec.layout;
  tt::FloatChain chain;
  chain.layout = layout;
  if (layout.exact_rows > 0) {
    chain.exact_ids = rising_indices(folder, spec.exact_ids_name(), layout.exact_rows, spec.rows());
    chain.exact_rows = finite_floats(folder, spec.exact_rows_name(), {layout.exact_rows, spec.columns()});
  }
  if (layout.empty()) return chain;
  for (std::size_t k = 0; k < layout.cores(); ++k) {
    chain.cores.push_back(read_core(folder, spec, k));
    if (!spec.folded && k + 1 < layout.cores())
      multiply_columns(chain.cores.back(), finite_floats(folder, spec.diagonal_name(k), {layout.ranks[k + 1]}),
                       threshold);
  }
  if (layout.sorted) chain.order = distinct_indices(folder, spec.order_name(), spec.rows(), spec.rows());
  if (layout.gauge)
    chain.gauge = distinct_indices(folder, spec.gauge_name(), layout.ranks[layout.middle()], spec.columns());
  return chain;
}

tt::FloatMatrix read_base(const ModelFolder& folder, const ChainSpec& spec) {
  const std::int64_t bytes = quant::line_bytes(*spec.base, spec.base_numbers());
  const ModelFolder::Entry& entry = codes_in(folder, spec.base_name(), {spec.base_lines(), bytes});
  const StoredBytes stored = folder.file_of(entry).bytes(entry.tensor);
  const std::span<const std::byte> all = stored.span();
  tt::FloatMatrix matrix(spec.rows(), spec.columns());
  std::vector<float> line(static_cast<std::size_t>(spec.base_numbers()));
  for (std::int64_t l = 0; l < spec.base_lines(); ++l) {
    quant::decode_line(*spec.base, all.subspan(static_cast<std::size_t>(l * bytes), static_cast<std::size_t>(bytes)),
                       line);
    require_finite_scales(folder, spec.base_name(), line, l);
    for (std::size_t i = 0; i < line.size(); ++i) {
      const auto number = static_cast<std::int64_t>(i);
      (spec.table() ? matrix(l, number) : matrix(number, l)) = line[i];
    }
  }
  folder.file_of(entry).forget(entry.tensor);
  return matrix;
}

tt::FloatMatrix read_matrix(const ModelFolder& folder, const ChainSpec& spec, std::optional<double> threshold) {
  tt::FloatMatrix matrix;
  if (spec.base) matrix = read_base(folder, spec);
  if (spec.base && spec.layout.empty() && spec.layout.exact_rows == 0) return matrix;
  const tt::FloatChain chain = read_chain(folder, spec, threshold);
  if (spec.base && spec.layout.empty()) {
    tt::put_exact_rows(chain, matrix);
    return matrix;
  }
  tt::FloatMatrix whole = tt::expand(chain);
  if (whole.rows > spec.rows()) whole = tt::first_rows(whole, spec.rows());
  for (std::size_t i = 0; i < matrix.values.size(); ++i) whole.values[i] += matrix.values[i];
  if (spec.base) tt::put_exact_rows(chain, whole);
  return whole;
}

}  // namespace comera::io
