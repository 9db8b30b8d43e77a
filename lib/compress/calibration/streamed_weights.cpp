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
  const bool stored_whole = parameter.role == layers::Role::other || parameter.role == layers::Role::table;
  return stored_whole && parameter.shape.dims() == 2 && parameter.name.ends_with(".weight");
}

}  // namespace

layers::Parameter* find_parameter(layers::Model& model, const std::string& layer) {
  const std::string name = layer + ".weight";
  for (layers::Parameter& parameter : model.parameters().all())
    if (parameter.name == name || parameter.name.ends_with("." + name) || name.ends_with("." + parameter.name))
      return &parameter;
  return nullptr;
}

layers::Parameter* find_vector(layers::Model& model, const std::string& tensor) {
  layers::Parameter* found = nullptr;
  const auto alike = [&](const std::string& name) {
    return name.ends_with("." + tensor) || tensor.ends_with("." + name);
  };
  for (layers::Parameter& parameter : model.parameters().all()) {
    if (parameter.shape.dims() != 1) continue;
    std::vector<std::string> names = parameter.aliases;
    names.push_back(parameter.name);
    if (std::find(names.begin(), names.end(), tensor) != names.end()) return &parameter;
    if (!found && std::any_of(names.begin(), names.end(), alike)) found = &parameter;
  }
  return found;
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
  if (trial_ && trial_->place.index == parameter.index) {
    parameter.value.data = trial_->numbers.data();
    return;
  }
  const bool replaced = shows_replaced(parameter);
  COMERA_CHECK(!replaced || !ranks_.contains({size_, parameter.index}));
  parameter.value.data = numbers(parameter, replaced ? std::optional(size_) : std::nullopt).data();
}

bool StreamedWeights::shows_replaced(const layers::Parameter& parameter) const {
  return shown_ == Version::replaced && replaced_.contains({size_, parameter.index});
}

StreamedWeights::Factors StreamedWeights::factors(const layers::Parameter& parameter) {
  const auto rank = ranks_.find({size_, parameter.index});
  if (rank == ranks_.end() || !shows_replaced(parameter)) return {};
  const float* left = numbers(parameter, size_).data();
  return {rank->second, left, left + parameter.shape[0] * rank->second};
}

// The numbers in the compressed model of this size; without a size, those of the model itself.
std::span<float> StreamedWeights::numbers(const layers::Parameter& parameter, std::optional<std::size_t> size) {
  const Place place{size.value_or(0), parameter.index};
  const auto found = std::find_if(recent_.begin(), recent_.end(), [&](const Held& held) {
    return held.place == place && held.replaced == size.has_value();
  });
  if (found != recent_.end()) {
    recent_.splice(recent_.begin(), recent_, found);
    return recent_.front().numbers;
  }
  const auto rank = size ? ranks_.find(place) : ranks_.end();
  const std::size_t count = rank == ranks_.end()
                                ? count_of(parameter)
                                : static_cast<std::size_t>(rank->second * (parameter.shape[0] + parameter.shape[1]));
  make_room(count * sizeof(float));
  Held held{place, size.has_value(), std::vector<float>(count)};
  if (size) {
    read_replaced(parameter, *size, held.numbers);
  } else {
    stored_.read(parameter, held.numbers);
  }
  held_ += held.numbers.size() * sizeof(float);
  recent_.push_front(std::move(held));
  return recent_.front().numbers;
}

void StreamedWeights::make_room(std::size_t bytes) { forget_beyond(most_ > bytes ? most_ - bytes : 0); }

void StreamedWeights::forget_beyond(std::size_t bytes) {
  while (!recent_.empty() && held_ > bytes) drop(std::prev(recent_.end()));
}

void StreamedWeights::drop(std::list<Held>::iterator held) {
  held_ -= held->numbers.size() * sizeof(float);
  recent_.erase(held);
}

void StreamedWeights::replace(const layers::Parameter& parameter, std::span<const double> numbers, std::size_t size) {
  COMERA_CHECK(numbers.size() == count_of(parameter));
  const Place place{size, parameter.index};
  forget_replaced(place);
  store(place, parameter, std::vector<float>(numbers.begin(), numbers.end()));
}

void StreamedWeights::replace(const layers::Parameter& parameter, const tt::Pair& factors, std::size_t size) {
  COMERA_CHECK(factors.left.rows == parameter.shape[0] && factors.right.columns == parameter.shape[1]);
  const Place place{size, parameter.index};
  forget_replaced(place);
  std::vector<float> numbers(factors.left.values.begin(), factors.left.values.end());
  numbers.insert(numbers.end(), factors.right.values.begin(), factors.right.values.end());
  COMERA_CHECK(numbers.size() <= count_of(parameter));
  store(place, parameter, numbers);
  ranks_[place] = factors.left.columns;
}

// The place in the file has room for the matrix, so that it fits whatever replaces the parameter later.
void StreamedWeights::store(const Place& place, const layers::Parameter& parameter, std::span<const float> numbers) {
  if (!offsets_.contains(place)) offsets_[place] = scratch_.reserve(count_of(parameter) * sizeof(float));
  scratch_.write(offsets_[place], std::as_bytes(numbers));
}

void StreamedWeights::replace(const layers::Parameter& parameter, Read read, std::size_t size) {
  const Place place{size, parameter.index};
  forget_replaced(place);
  readers_[place] = std::move(read);
}

bool StreamedWeights::any_replaced(std::size_t size) const {
  const auto first = replaced_.lower_bound({size, -1});
  return first != replaced_.end() && first->size == size;
}

void StreamedWeights::read_replaced(const layers::Parameter& parameter, std::size_t size,
                                    std::span<float> numbers) const {
  const Place place{size, parameter.index};
  if (const auto reader = readers_.find(place); reader != readers_.end()) return reader->second(parameter, numbers);
  scratch_.read(offsets_.at(place), std::as_writable_bytes(numbers));
}

// Marks the parameter as replaced and forgets the numbers of an earlier replacement.
void StreamedWeights::forget_replaced(const Place& place) {
  replaced_.insert(place);
  readers_.erase(place);
  ranks_.erase(place);
  const auto stale = std::find_if(recent_.begin(), recent_.end(),
                                  [&](const Held& held) { return held.place == place && held.replaced; });
  if (stale != recent_.end()) drop(stale);
}

void StreamedWeights::show(Version version, std::size_t size) {
  if (shown_ == version && size_ == size) return;
  shown_ = version, size_ = size;
  for (auto& [index, vector] : vectors_) show(vector);
}

void StreamedWeights::show(const Vector& vector) const {
  const auto found = vector.by_size.find(size_);
  const bool replaced = shown_ == Version::replaced && found != vector.by_size.end();
  const std::vector<float>& numbers = replaced ? found->second : vector.original;
  std::copy(numbers.begin(), numbers.end(), static_cast<float*>(vector.parameter->value.data));
}

void StreamedWeights::replace_vector(layers::Parameter& parameter, std::span<const float> numbers, std::size_t size) {
  COMERA_CHECK(!parameter.source && numbers.size() == count_of(parameter));
  const auto* now = static_cast<const float*>(parameter.value.data);
  Vector& vector = vectors_.try_emplace(parameter.index, Vector{&parameter, {now, now + numbers.size()}}).first->second;
  vector.by_size[size].assign(numbers.begin(), numbers.end());
  show(vector);
}

void StreamedWeights::restore() {
  for (auto& [index, vector] : vectors_) {
    vector.by_size.clear();
    show(vector);
  }
  replaced_.clear();
  readers_.clear();
  ranks_.clear();
  for (auto held = recent_.begin(); held != recent_.end();) {
    const auto next = std::next(held);
    if (held->replaced) drop(held);
    held = next;
  }
}

void StreamedWeights::try_out(const layers::Parameter& parameter, std::span<const double> numbers) {
  COMERA_CHECK(numbers.size() == count_of(parameter));
  trial_ = Held{{0, parameter.index}, false, {numbers.begin(), numbers.end()}};
}

}  // namespace comera::compress
