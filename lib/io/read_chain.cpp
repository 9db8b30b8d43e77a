// Reads the tensors of a chain and checks them completely.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "lib/core/error.h"
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

}  // namespace

ChainTensors read_chain(const ModelFolder& folder, const ChainSpec& chain, std::optional<double> threshold) {
  ChainTensors tensors;
  if (chain.exact > 0) {
    tensors.exact_ids = rising_indices(folder, chain.exact_ids_name(), chain.exact, chain.shape[0]);
    tensors.exact_rows = finite_floats(folder, chain.exact_rows_name(), {chain.exact, chain.shape[1]});
  }
  if (chain.empty()) return tensors;
  for (std::size_t k = 0; k < chain.cores(); ++k) {
    tensors.cores.push_back(finite_floats(folder, chain.core_name(k), chain.core_shape(k)));
    if (!chain.folded && k + 1 < chain.cores())
      multiply_columns(tensors.cores.back(), finite_floats(folder, chain.diagonal_name(k), {chain.ranks[k + 1]}),
                       threshold);
  }
  if (chain.sorted) tensors.order = distinct_indices(folder, chain.order_name(), chain.in(), chain.in());
  if (chain.gauge)
    tensors.gauge = distinct_indices(folder, chain.gauge_name(), chain.ranks[chain.middle()], chain.out());
  return tensors;
}

std::vector<float> restore_gauge(std::span<const float> stored, std::span<const std::int32_t> gauge, std::int64_t out) {
  const auto rank = static_cast<std::int64_t>(gauge.size()), kept = out - rank;
  std::vector<std::int64_t> unit(static_cast<std::size_t>(out), -1);
  for (std::int64_t r = 0; r < rank; ++r) unit[static_cast<std::size_t>(gauge[static_cast<std::size_t>(r)])] = r;
  std::vector<float> full(static_cast<std::size_t>(rank * out), 0.0f);
  for (std::int64_t column = 0, from = 0; column < out; ++column) {
    const std::int64_t row = unit[static_cast<std::size_t>(column)];
    if (row >= 0) full[static_cast<std::size_t>(row * out + column)] = 1;
    for (std::int64_t r = 0; r < rank && row < 0; ++r)
      full[static_cast<std::size_t>(r * out + column)] = stored[static_cast<std::size_t>(r * kept + from)];
    from += row < 0;
  }
  return full;
}

}  // namespace comera::io
