#include "lib/compress/calibration/streamed_weights.h"

#include <algorithm>

#include "lib/core/error.h"

namespace comera::compress {
namespace {

std::size_t count_of(const layers::Parameter& parameter) {
  return static_cast<std::size_t>(parameter.shape.elements());
}

// True for dense layers and tables. Cores stay in memory, because they are small and are merged before the model runs.
bool is_matrix(const layers::Parameter& parameter) {
  return parameter.role == layers::Role::other && parameter.shape.dims() == 2 && parameter.name.ends_with(".weight");
}

}  // namespace

layers::Parameter* find_parameter(layers::Model& model, const std::string& layer) {
  const std::string name = layer + ".weight";
  for (layers::Parameter& parameter : model.parameters().all())
    if (parameter.name == name || parameter.name.ends_with("." + name) || name.ends_with("." + parameter.name))
      return &parameter;
  return nullptr;
}

layers::ModelFactory StreamedWeights::streaming(layers::ModelFactory base) {
  return [this, base = std::move(base)](const layers::RankTable& ranks) {
    std::unique_ptr<layers::Model> model = base(ranks);
    model->parameters().leave_to(*this, is_matrix);
    most_ = set_aside_;
    for (const layers::Parameter& parameter : model->parameters().all())
      if (parameter.source) most_ = std::max(most_, count_of(parameter) * sizeof(float));
    return model;
  };
}

void StreamedWeights::bring(layers::Parameter& parameter) {
  if (trial_ && trial_->index == parameter.index) {
    parameter.value.data = trial_->numbers.data();
    return;
  }
  parameter.value.data = numbers(parameter, shown_ == Version::replaced && replaced_.contains(parameter.index)).data();
}

std::span<float> StreamedWeights::numbers(const layers::Parameter& parameter, bool replaced) {
  const auto found = std::find_if(recent_.begin(), recent_.end(), [&](const Held& held) {
    return held.index == parameter.index && held.replaced == replaced;
  });
  if (found != recent_.end()) {
    recent_.splice(recent_.begin(), recent_, found);
    return recent_.front().numbers;
  }
  make_room(count_of(parameter) * sizeof(float));
  Held held{parameter.index, replaced, std::vector<float>(count_of(parameter))};
  if (replaced) {
    read_replaced(parameter, held.numbers);
  } else {
    stored_.read(parameter, held.numbers);
  }
  held_ += held.numbers.size() * sizeof(float);
  recent_.push_front(std::move(held));
  return recent_.front().numbers;
}

void StreamedWeights::make_room(std::size_t bytes) {
  while (!recent_.empty() && held_ + bytes > most_) drop(std::prev(recent_.end()));
}

void StreamedWeights::drop(std::list<Held>::iterator held) {
  held_ -= held->numbers.size() * sizeof(float);
  recent_.erase(held);
}

void StreamedWeights::replace(const layers::Parameter& parameter, std::span<const double> numbers) {
  COMERA_CHECK(numbers.size() == count_of(parameter));
  const std::vector<float> floats(numbers.begin(), numbers.end());
  const std::span<const std::byte> bytes = std::as_bytes(std::span(floats));
  const auto place = places_.contains(parameter.index)
                         ? places_.find(parameter.index)
                         : places_.emplace(parameter.index, scratch_.reserve(bytes.size())).first;
  scratch_.write(place->second, bytes);
  readers_.erase(parameter.index);
  forget_replaced(parameter);
}

void StreamedWeights::replace(const layers::Parameter& parameter, Read read) {
  readers_[parameter.index] = std::move(read);
  forget_replaced(parameter);
}

void StreamedWeights::read_replaced(const layers::Parameter& parameter, std::span<float> numbers) const {
  if (const auto reader = readers_.find(parameter.index); reader != readers_.end())
    return reader->second(parameter, numbers);
  scratch_.read(places_.at(parameter.index), std::as_writable_bytes(numbers));
}

void StreamedWeights::forget_replaced(const layers::Parameter& parameter) {
  replaced_.insert(parameter.index);
  const auto stale = std::find_if(recent_.begin(), recent_.end(),
                                  [&](const Held& held) { return held.index == parameter.index && held.replaced; });
  if (stale != recent_.end()) drop(stale);
}

void StreamedWeights::restore() {
  replaced_.clear();
  readers_.clear();
  for (auto held = recent_.begin(); held != recent_.end();) {
    const auto next = std::next(held);
    if (held->replaced) drop(held);
    held = next;
  }
}

void StreamedWeights::try_out(const layers::Parameter& parameter, std::span<const double> numbers) {
  COMERA_CHECK(numbers.size() == count_of(parameter));
  trial_ = Held{parameter.index, false, {numbers.begin(), numbers.end()}};
}

}  // namespace comera::compress
