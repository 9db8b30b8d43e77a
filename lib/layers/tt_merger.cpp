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

void TtMerger::add(std::size_t chain, const Place& place) {
  items_.push_back({chain, place});
  matrices_.emplace_back();
  open_.reserve(open_.capacity() + chains_[chain].cores.size() + chains_[chain].diagonals.size());
  indices_.emplace_back();
}

void TtMerger::declare(plan::Inputs& inputs) {
  for (std::size_t i = 0; i < items_.size(); ++i) {
    inputs.add(chains_[items_[i].chain].order, indices_[i].order);
    inputs.add(chains_[items_[i].chain].gauge, indices_[i].gauge);
  }
}

void TtMerger::describe(std::size_t index, double threshold) {
  const Item& item = items_[index];
  const ChainParameters& chain = chains_[item.chain];
  const Indices& indices = indices_[index];
  COMERA_CHECK(indices.order.empty() == chain.order.empty() && indices.gauge.empty() == chain.gauge.empty());
  kernels::TtMatrix& matrix = matrices_[index];
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
  matrix.left = column(factors_[item.place.left], item.place.offset);
  matrix.ld_left = item.place.width;
  matrix.right = factors_[item.place.right].data;
  matrix.d_left = column(step_gradients_[item.place.d_left], item.place.offset);
  matrix.d_right = step_gradients_[item.place.d_right].data;
}

void TtMerger::prepare(Walk& walk, double threshold) {
  if (items_.empty()) return;
  for (std::size_t i = 0; i < items_.size(); ++i) describe(i, threshold);
  walk.run(walk.backend().tt_merge, kernels::TtMerge{matrices_.data(), static_cast<int>(matrices_.size())});
}

void TtMerger::finish(Walk& walk, Sink& sink, double threshold) {
  if (items_.empty()) return;
  open_.clear();
  for (std::size_t i = 0; i < items_.size(); ++i) {
    kernels::TtMatrix& matrix = matrices_[i];
    describe(i, threshold);
    const ChainParameters& chain = chains_[items_[i].chain];
    for (std::size_t k = 0; k < chain.cores.size(); ++k)
      matrix.d_cores[k] = open_.emplace_back(sink.open(walk, *chain.cores[k])).data;
    for (std::size_t k = 0; k < chain.diagonals.size(); ++k)
      matrix.d_diagonals[k] = open_.emplace_back(sink.open(walk, *chain.diagonals[k])).data;
  }
  walk.run(walk.backend().tt_merge_backward,
           kernels::TtMergeBackward{matrices_.data(), static_cast<int>(matrices_.size())});
  std::size_t next = 0;
  for (const Item& item : items_) {
    for (Parameter* core : chains_[item.chain].cores) sink.close(walk, *core, open_[next++]);
    for (Parameter* diagonal : chains_[item.chain].diagonals) sink.close(walk, *diagonal, open_[next++]);
  }
}

}  // namespace comera::layers
