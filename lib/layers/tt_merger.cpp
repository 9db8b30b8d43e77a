#include "lib/layers/tt_merger.h"

#include <algorithm>

#include "kernels/tt_cores.h"
#include "lib/core/error.h"

namespace comera::layers {
namespace {

void* column(const Tensor& tensor, std::int64_t offset) {
  return static_cast<char*>(tensor.data) + static_cast<std::size_t>(offset) * size_of(tensor.dtype);
}

}  // namespace

TtMerger::TtMerger(const std::vector<ChainParameters>& chains, plan::Slab& factors, plan::Slab& step_gradients)
    : chains_(chains), factors_(factors), step_gradients_(step_gradients) {}
TtMerger::~TtMerger() = default;

std::size_t TtMerger::add(std::size_t chain, const Place& place) {
  if (place.left >= 0) {
    stored_.push_back(items_.size());
    matrices_.emplace_back();
  }
  items_.push_back({chain, place});
  open_.reserve(open_.capacity() + chains_[chain].cores.size() + chains_[chain].diagonals.size());
  indices_.emplace_back();
  return items_.size() - 1;
}

void TtMerger::declare(plan::Inputs& inputs) {
  for (std::size_t i = 0; i < items_.size(); ++i) {
    inputs.add(chains_[items_[i].chain].order, indices_[i].order);
    inputs.add(chains_[items_[i].chain].gauge, indices_[i].gauge);
  }
}

void TtMerger::describe(std::size_t index, double threshold, const Factors& factors, const Factors& gradients,
                        kernels::TtMatrix& matrix) const {
  const Item& item = items_[index];
  const ChainParameters& chain = chains_[item.chain];
  const Indices& indices = indices_[index];
  COMERA_CHECK(indices.order.empty() == chain.order.empty() && indices.gauge.empty() == chain.gauge.empty());
  matrix = {};
  const tt::Layout& layout = chain.layout;
  matrix.d = static_cast<int>(layout.inputs());
  matrix.e = static_cast<int>(layout.cores()) - matrix.d;
  for (std::size_t k = 0; k < layout.cores(); ++k) matrix.modes[k] = layout.entry_size(k);
  matrix.order = static_cast<const std::int32_t*>(indices.order.data);
  matrix.gauge = static_cast<const std::int32_t*>(indices.gauge.data);
  std::copy(layout.ranks.begin(), layout.ranks.end(), matrix.ranks);
  for (std::size_t k = 0; k < chain.cores.size(); ++k) matrix.cores[k] = chain.cores[k]->value.data;
  for (std::size_t k = 0; k < chain.diagonals.size(); ++k) matrix.diagonals[k] = chain.diagonals[k]->value.data;
  matrix.threshold = threshold;
  matrix.ld_left = item.place.width;
  if (!factors.left.empty()) matrix.left = column(factors.left, item.place.offset);
  matrix.right = factors.right.data;
  if (!gradients.left.empty()) matrix.d_left = column(gradients.left, item.place.offset);
  matrix.d_right = gradients.right.data;
}

void TtMerger::describe_stored(double threshold) {
  for (std::size_t i = 0; i < stored_.size(); ++i) {
    const Place& place = items_[stored_[i]].place;
    describe(stored_[i], threshold, {factors_[place.left], factors_[place.right]},
             {step_gradients_[place.d_left], step_gradients_[place.d_right]}, matrices_[i]);
  }
}

void TtMerger::open(Walk& walk, Sink& sink, std::size_t index, kernels::TtMatrix& matrix) {
  const ChainParameters& chain = chains_[items_[index].chain];
  for (std::size_t k = 0; k < chain.cores.size(); ++k)
    matrix.d_cores[k] = open_.emplace_back(sink.open(walk, *chain.cores[k])).data;
  for (std::size_t k = 0; k < chain.diagonals.size(); ++k)
    matrix.d_diagonals[k] = open_.emplace_back(sink.open(walk, *chain.diagonals[k])).data;
}

// `next`: the first gradient of the item in open_. Returns that of the next item.
std::size_t TtMerger::close(Walk& walk, Sink& sink, std::size_t index, std::size_t next) {
  const ChainParameters& chain = chains_[items_[index].chain];
  for (Parameter* core : chain.cores) sink.close(walk, *core, open_[next++]);
  for (Parameter* diagonal : chain.diagonals) sink.close(walk, *diagonal, open_[next++]);
  return next;
}

void TtMerger::prepare(Walk& walk, double threshold) {
  if (stored_.empty()) return;
  describe_stored(threshold);
  walk.run(walk.backend().tt_merge, kernels::TtMerge{matrices_.data(), static_cast<int>(matrices_.size())});
}

void TtMerger::finish(Walk& walk, Sink& sink, double threshold) {
  if (stored_.empty()) return;
  open_.clear();
  describe_stored(threshold);
  for (std::size_t i = 0; i < stored_.size(); ++i) open(walk, sink, stored_[i], matrices_[i]);
  walk.run(walk.backend().tt_merge_backward,
           kernels::TtMergeBackward{matrices_.data(), static_cast<int>(matrices_.size())});
  std::size_t next = 0;
  for (const std::size_t index : stored_) next = close(walk, sink, index, next);
}

void TtMerger::merge(Walk& walk, std::size_t weight, double threshold, const Factors& factors) {
  kernels::TtMatrix matrix;
  describe(weight, threshold, factors, {}, matrix);
  walk.run(walk.backend().tt_merge, kernels::TtMerge{&matrix, 1});
}

void TtMerger::split(Walk& walk, Sink& sink, std::size_t weight, double threshold, const Factors& gradients) {
  kernels::TtMatrix matrix;
  describe(weight, threshold, {}, gradients, matrix);
  open_.clear();
  open(walk, sink, weight, matrix);
  walk.run(walk.backend().tt_merge_backward, kernels::TtMergeBackward{&matrix, 1});
  close(walk, sink, weight, 0);
}

}  // namespace comera::layers
