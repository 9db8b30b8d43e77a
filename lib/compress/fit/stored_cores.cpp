#include "lib/compress/fit/stored_cores.h"

#include <algorithm>
#include <cmath>

#include "lib/compress/plan/plan.h"
#include "lib/quant/rounding.h"

namespace comera::compress {

std::vector<std::byte> store_numbers(std::span<float> numbers, io::StoredType type) {
  std::vector<std::byte> bytes(numbers.size() * io::size_of(type));
  io::from_floats(numbers, type, bytes);
  io::to_floats(type, bytes, numbers);
  return bytes;
}

std::vector<std::byte> store_core(std::span<float> numbers, const io::ChainSpec& spec, io::StoredType dense) {
  if (!spec.cores) return store_numbers(numbers, core_type(spec, dense));
  const tt::Matrix line(1, std::ssize(numbers), {numbers.begin(), numbers.end()});
  std::vector<std::byte> bytes = quant::round_table(line, *spec.cores).bytes;
  quant::decode_line(*spec.cores, bytes, numbers);
  return bytes;
}

void balance_columns(tt::Chain& chain) {
  if (!chain.layout.pair() || chain.layout.empty()) return;
  std::vector<double>&left = chain.cores[0], &right = chain.cores[1];
  const auto rank = static_cast<std::size_t>(chain.layout.ranks[1]);
  std::vector<double> largest(rank);
  for (std::size_t i = 0; i < left.size(); ++i) largest[i % rank] = std::max(largest[i % rank], std::abs(left[i]));
  for (double& number : largest) number = number > 0 ? number : 1;
  for (std::size_t i = 0; i < left.size(); ++i) left[i] /= largest[i % rank];
  const std::size_t out = right.size() / rank;
  for (std::size_t i = 0; i < right.size(); ++i) right[i] *= largest[i / out];
}

std::vector<std::vector<std::byte>> store_cores(tt::Chain& chain, const io::ChainSpec& spec, io::StoredType dense) {
  std::vector<std::vector<std::byte>> all;
  for (std::vector<double>& core : chain.cores) {
    std::vector<float> numbers(core.begin(), core.end());
    all.push_back(store_core(numbers, spec, dense));
    core.assign(numbers.begin(), numbers.end());
  }
  return all;
}

std::vector<std::byte> store_exact_rows(tt::Chain& chain, io::StoredType type) {
  std::vector<float> numbers(chain.exact_rows.begin(), chain.exact_rows.end());
  std::vector<std::byte> bytes = store_numbers(numbers, type);
  chain.exact_rows.assign(numbers.begin(), numbers.end());
  return bytes;
}

}  // namespace comera::compress
