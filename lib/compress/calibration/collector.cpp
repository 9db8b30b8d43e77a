#include "lib/compress/calibration/collector.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lib/core/error.h"
#include "lib/core/hash.h"

namespace comera::compress {
namespace {

std::span<float> numbers_of(const plan::Tensor& tensor) {
  return {static_cast<float*>(tensor.data), tensor.empty() ? 0 : static_cast<std::size_t>(tensor.elements())};
}

}  // namespace

void Finder::see(const std::string& layer, const plan::Tensor& x) {
  const std::string hash = hash_bytes(std::as_bytes(numbers_of(x)));
  if (hash != last_) groups.push_back({{}, x.shape[x.shape.dims() - 1], false, block_});
  groups.back().layers.push_back(layer);
  last_ = hash;
}

void BlockOutput::keep(ScratchFile& file, const plan::Tensor& normed, const plan::Tensor& residual) {
  const auto a = std::as_bytes(numbers_of(normed)), b = std::as_bytes(numbers_of(residual));
  bytes_ = a.size() + b.size();
  if (!place_) place_ = file.reserve(bytes_);
  file.write(*place_, a);
  file.write(*place_ + a.size(), b);
}

void BlockOutput::give(const ScratchFile& file, plan::Tensor& normed, plan::Tensor& residual) const {
  const auto a = std::as_writable_bytes(numbers_of(normed)), b = std::as_writable_bytes(numbers_of(residual));
  COMERA_CHECK(place_ && a.size() + b.size() == bytes_);
  file.read(*place_, a);
  file.read(*place_ + a.size(), b);
}

Collector::Collector(std::span<const Group> groups, Reads reads, std::optional<std::size_t> kept, BlockOutputs& outputs,
                     ScratchFile& scratch)
    : seen(groups.size()),
      reads_(reads),
      outputs_(outputs),
      scratch_(scratch),
      kept_(kept),
      goes_on_(kept && *kept >= groups.back().block) {
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (const std::string& layer : groups[g].layers) index_[layer] = g;
  // A layer that joins also needs the residual stream, which is known where its output would be added.
  if (reads != Reads::outputs && !goes_on_) (groups.back().joins ? unread_ : end_) = groups.back().layers.back();
  if (outputs.block && *outputs.block < groups.front().block) known_ = outputs.block;
  outputs.block.reset();
}

void Collector::open(const TextBatch& batch, BlockOutput& output) {
  batch_ = &batch, output_ = &output, last_ = nullptr;
  for (Seen& one : seen) one.has_x = one.has_residual = false;
}

void Collector::see(const std::string& layer, const plan::Tensor& x) {
  const auto found = index_.find(layer);
  if (found == index_.end() && last_ == &seen.back()) seen_all();
  last_ = found == index_.end() ? nullptr : &seen[found->second];
  if (last_ && !last_->has_x && reads_ != Reads::outputs) last_->has_x = read(x, last_->x);
  if (layer == end_) seen_all();
}

layers::Instead Collector::instead(const std::string& layer, std::int64_t tokens) {
  if (layer == unread_ && !weighs()) return {.nothing = true};
  return factors ? factors(layer, tokens) : layers::Instead{};
}

void Collector::join(const plan::Tensor& residual, const plan::Tensor& given) {
  if (last_) {
    last_->has_residual = read(residual, last_->residual) && (reads_ != Reads::outputs || read(given, last_->given));
    last_->weights.clear();
    if (last_->has_residual && weighs()) weigh(given, *last_);
  }
  if (last_ == &seen.back()) seen_all();
}

void Collector::weigh(const plan::Tensor& given, Seen& seen) const {
  const std::int64_t width = seen.residual.columns, length = batch_->batch.length;
  const std::span<const std::int32_t> lengths = batch_->lengths();
  for (std::int64_t b = 0; b < std::ssize(lengths); ++b)
    for (std::int64_t t = 0; t < lengths[static_cast<std::size_t>(b)]; ++t) {
      const float* before = seen.residual.row(std::ssize(seen.weights));
      const float* added = static_cast<const float*>(given.data) + (b * length + t) * width;
      float sum = 0;
      for (std::int64_t j = 0; j < width; ++j) sum += (before[j] + added[j]) * (before[j] + added[j]);
      seen.weights.push_back(std::isfinite(sum) ? std::sqrt(sum) : 0);  // the median needs an order
    }
  std::vector<float> sorted = seen.weights;
  const auto middle = sorted.begin() + std::ssize(sorted) / 2;
  std::nth_element(sorted.begin(), middle, sorted.end());
  const float longest = static_cast<float>(Seen::clip) * *middle;
  for (float& weight : seen.weights) weight = weight > longest ? longest / weight : 1;
}

void Collector::seen_all() {
  last_ = nullptr;
  if (!goes_on_) throw SeenEnough();
}

void Collector::leave(std::size_t block, plan::Tensor& normed, plan::Tensor& residual) {
  if (block == known_) {
    output_->give(scratch_, normed, residual);
  } else if (block == kept_) {
    output_->keep(scratch_, normed, residual);
    if (goes_on_) throw SeenEnough();
  }
}

// Returns false if `x` does not have one row per token of the batch. Reuses the memory of an earlier batch.
bool Collector::read(const plan::Tensor& x, tt::FloatMatrix& values) const {
  const std::int64_t width = x.shape[x.shape.dims() - 1], length = batch_->batch.length;
  if (x.elements() / width != batch_->batch.sequences * length) return false;
  const std::span<const std::int32_t> lengths = batch_->lengths();
  std::vector<std::int64_t> begins(lengths.size() + 1);  // rows
  std::partial_sum(lengths.begin(), lengths.end(), begins.begin() + 1, std::plus<std::int64_t>());
  values.rows = begins.back(), values.columns = width;
  values.values.resize(static_cast<std::size_t>(values.rows * width));
  tt::each_alone(std::ssize(lengths), [&](std::int64_t b) {
    const auto index = static_cast<std::size_t>(b);
    std::copy_n(static_cast<const float*>(x.data) + b * length * width, lengths[index] * width,
                values.row(begins[index]));
  });
  return true;
}

}  // namespace comera::compress
