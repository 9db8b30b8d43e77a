#include "lib/layers/tt_merger.h"

#include <algorithm>

#include "kernels/tt_cores.h"

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
  indices_.reserve(2 * items_.size());
}

const std::int32_t* TtMerger::input(Walk& walk, const std::vector<std::int32_t>& indices) {
  if (indices.empty()) return nullptr;
  // The kernels only read, but a view of host memory has no const form.
  const TensorView view{
      const_cast<std::int32_t*>(indices.data()), DType::i32, {static_cast<std::int64_t>(indices.size())}};
  return static_cast<const std::int32_t*>(indices_.emplace_back(walk.input(view)).data);
}

void TtMerger::drop_indices(Walk& walk) {
  for (Tensor& tensor : indices_) walk.drop(tensor);
  indices_.clear();
}

void TtMerger::describe(Walk& walk, const Item& item, double threshold, kernels::TtMatrix& matrix) {
  const TensorTrain& train = trains_[item.train];
  matrix = {};
  const tt::Layout& layout = train.layout;
  matrix.d = static_cast<int>(layout.inputs());
  matrix.e = static_cast<int>(layout.cores()) - matrix.d;
  for (std::size_t k = 0; k < layout.cores(); ++k) matrix.modes[k] = layout.entry_size(k);
  matrix.order = input(walk, train.order);
  matrix.gauge = input(walk, train.gauge);
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
  for (std::size_t i = 0; i < items_.size(); ++i) describe(walk, items_[i], threshold, matrices_[i]);
  walk.run(walk.backend().tt_merge, kernels::TtMerge{matrices_.data(), static_cast<int>(matrices_.size())});
  drop_indices(walk);
}

void TtMerger::finish(Walk& walk, Sink& sink, double threshold) {
  if (items_.empty()) return;
  open_.clear();
  for (std::size_t i = 0; i < items_.size(); ++i) {
    kernels::TtMatrix& matrix = matrices_[i];
    describe(walk, items_[i], threshold, matrix);
    const TensorTrain& train = trains_[items_[i].train];
    for (std::size_t k = 0; k < train.cores.size(); ++k)
      matrix.d_cores[k] = open_.emplace_back(sink.open(walk, *train.cores[k])).data;
    for (std::size_t k = 0; k < train.diagonals.size(); ++k)
      matrix.d_diagonals[k] = open_.emplace_back(sink.open(walk, *train.diagonals[k])).data;
  }
  walk.run(walk.backend().tt_merge_backward,
           kernels::TtMergeBackward{matrices_.data(), static_cast<int>(matrices_.size())});
  drop_indices(walk);
  std::size_t next = 0;
  for (const Item& item : items_) {
    for (Parameter* core : trains_[item.train].cores) sink.close(walk, *core, open_[next++]);
    for (Parameter* diagonal : trains_[item.train].diagonals) sink.close(walk, *diagonal, open_[next++]);
  }
}

}  // namespace comera::layers
