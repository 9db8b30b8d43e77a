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

TtMerger::TtMerger(const std::vector<TensorTrain>& trains, plan::Slab& halves, plan::Slab& step_gradients)
    : trains_(trains), halves_(halves), step_gradients_(step_gradients) {}
TtMerger::~TtMerger() = default;

void TtMerger::add(std::size_t train, const Place& place) {
  items_.push_back({train, place});
  matrices_.emplace_back();
  open_.reserve(open_.capacity() + trains_[train].cores.size() + trains_[train].diagonals.size());
  indices_.emplace_back();
}

void TtMerger::declare(plan::Inputs& inputs) {
  for (std::size_t i = 0; i < items_.size(); ++i) {
    inputs.add(trains_[items_[i].train].order, indices_[i].order);
    inputs.add(trains_[items_[i].train].gauge, indices_[i].gauge);
  }
}

void TtMerger::describe(std::size_t index, double threshold) {
  const Item& item = items_[index];
  const TensorTrain& train = trains_[item.train];
  const Indices& indices = indices_[index];
  COMERA_CHECK(indices.order.empty() == train.order.empty() && indices.gauge.empty() == train.gauge.empty());
  kernels::TtMatrix& matrix = matrices_[index];
  matrix = {};
  const tt::Layout& layout = train.layout;
  matrix.d = static_cast<int>(layout.inputs());
  matrix.e = static_cast<int>(layout.cores()) - matrix.d;
  for (std::size_t k = 0; k < layout.cores(); ++k) matrix.modes[k] = layout.entry_size(k);
  matrix.order = static_cast<const std::int32_t*>(indices.order.data);
  matrix.gauge = static_cast<const std::int32_t*>(indices.gauge.data);
  std::copy(layout.ranks.begin(), layout.ranks.end(), matrix.ranks);
  for (std::size_t k = 0; k < train.cores.size(); ++k) matrix.cores[k] = train.cores[k]->value.data;
  for (std::size_t k = 0; k < train.diagonals.size(); ++k) matrix.diagonals[k] = train.diagonals[k]->value.data;
  matrix.threshold = threshold;
  matrix.left = column(halves_[item.place.left], item.place.offset);
  matrix.ld_left = item.place.width;
  matrix.right = halves_[item.place.right].data;
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
    const TensorTrain& train = trains_[items_[i].train];
    for (std::size_t k = 0; k < train.cores.size(); ++k)
      matrix.d_cores[k] = open_.emplace_back(sink.open(walk, *train.cores[k])).data;
    for (std::size_t k = 0; k < train.diagonals.size(); ++k)
      matrix.d_diagonals[k] = open_.emplace_back(sink.open(walk, *train.diagonals[k])).data;
  }
  walk.run(walk.backend().tt_merge_backward,
           kernels::TtMergeBackward{matrices_.data(), static_cast<int>(matrices_.size())});
  std::size_t next = 0;
  for (const Item& item : items_) {
    for (Parameter* core : trains_[item.train].cores) sink.close(walk, *core, open_[next++]);
    for (Parameter* diagonal : trains_[item.train].diagonals) sink.close(walk, *diagonal, open_[next++]);
  }
}

}  // namespace comera::layers
