#include "lib/layers/training/parameter.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <map>
#include <numbers>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "kernels/philox.h"
#include "lib/core/error.h"
#include "lib/core/half.h"
#include "lib/core/terminal/stop.h"
#include "lib/core/terminal/task_progress.h"
#include "lib/layers/training/name_hash.h"
#include "lib/layers/training/subspace.h"

namespace comera::layers {
namespace {

std::uint32_t low_word(std::uint64_t bits) { return static_cast<std::uint32_t>(bits); }
std::uint32_t high_word(std::uint64_t bits) { return static_cast<std::uint32_t>(bits >> 32); }

double uniform_of(std::uint32_t bits) { return (static_cast<double>(bits) + 0.5) / 4294967296.0; }

// Two independent standard normal numbers from four words (Box and Muller 1958).
std::pair<double, double> normals_of(const kernels::PhiloxBlock& block) {
  const double radius = std::sqrt(-2 * std::log(uniform_of(block.word[0])));
  const double angle = 2 * std::numbers::pi * uniform_of(block.word[1]);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

// Counts `elements` in the task, and ends the work if a signal has come.
void count(TaskProgress& task, std::int64_t elements) {
  task.advance(elements);
  check_stop();
}

void fill_random(const Parameter& parameter, std::uint64_t seed, TaskProgress& task) {
  constexpr std::int64_t counted = std::int64_t{1} << 18;  // at once: some milliseconds of work
  const std::uint64_t name = name_hash(parameter.name);
  const std::int64_t elements = parameter.shape.elements();
  for (std::int64_t i = 0; i < elements; i += 2) {
    if (i > 0 && i % counted == 0) count(task, counted);
    const auto pair = static_cast<std::uint64_t>(i / 2);
    const kernels::PhiloxBlock block = kernels::philox4x32_10(
        {{low_word(pair), high_word(pair), low_word(name), high_word(name)}}, {{low_word(seed), high_word(seed)}});
    double first = 2 * uniform_of(block.word[0]) - 1, second = 2 * uniform_of(block.word[1]) - 1;
    if (parameter.init.distribution == Init::Distribution::normal) std::tie(first, second) = normals_of(block);
    store(parameter.value, i, parameter.init.scale * first);
    if (i + 1 < elements) store(parameter.value, i + 1, parameter.init.scale * second);
  }
  count(task, elements > 0 ? (elements - 1) % counted + 1 : 0);
}

// Checks all names at once: a search per added parameter is too slow for models of thousands of layers.
void require_different_names(const std::deque<Parameter>& all) {
  std::unordered_set<std::string_view> names;
  for (const Parameter& parameter : all)
    if (!names.insert(parameter.name).second)
      throw std::logic_error(fmt::format("[layers] parameter {} is added twice", parameter.name));
}

}  // namespace

Shape Parameter::gradient_shape() const { return subspace ? Shape{subspace->sketch.rank, shape[1]} : shape; }

Parameter* Parameters::add(Parameter parameter) {
  parameter.index = static_cast<int>(all_.size());
  slab_.add(parameter.name, plan::Category::weights, parameter.type.value_or(dtype_), parameter.shape);
  parameter.value = slab_[parameter.index];
  all_.push_back(std::move(parameter));
  return &all_.back();
}

Parameter* Parameters::find(const std::string& name) {
  for (Parameter& parameter : all_)
    if (parameter.name == name) return &parameter;
  return nullptr;
}

std::int64_t Parameters::count() const {
  std::int64_t sum = 0;
  for (const Parameter& parameter : all_)
    if (parameter.role != Role::diagonal) sum += parameter.shape.elements();
  return sum;
}

std::int64_t Parameters::rank_entries() const {
  std::int64_t sum = 0;
  for (const Parameter& parameter : all_)
    if (parameter.role == Role::diagonal) sum += parameter.shape.elements();
  return sum;
}

DType Parameters::stored_type() const {
  std::map<DType, std::int64_t> elements;
  for (const Parameter& parameter : all_)
    elements[parameter.stored.value_or(parameter.value.dtype)] += parameter.shape.elements();
  const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
  return elements.empty() ? dtype_ : std::max_element(elements.begin(), elements.end(), less)->first;
}

void Parameters::bind(void* memory) {
  require_different_names(all_);
  slab_.bind(memory);
  for (Parameter& parameter : all_)
    if (!parameter.source) parameter.value = slab_[parameter.index];
}

void Parameters::leave_to(ParameterSource& source, const std::function<bool(const Parameter&)>& which) {
  slab_ = plan::Slab();
  for (Parameter& parameter : all_) {
    if (which(parameter)) parameter.source = &source;
    slab_.add(parameter.name, plan::Category::weights, parameter.type.value_or(dtype_),
              parameter.source ? Shape{0} : parameter.shape);
  }
}

void Parameters::initialise(std::uint64_t seed) {
  std::int64_t drawn = 0;
  for (const Parameter& parameter : all_)
    if (parameter.init.distribution != Init::Distribution::constant) drawn += parameter.shape.elements();
  TaskProgress task("drawing initial weights", drawn);
  for (const Parameter& parameter : all_) {
    if (parameter.init.distribution != Init::Distribution::constant) {
      fill_random(parameter, seed, task);
      continue;
    }
    for (std::int64_t i = 0; i < parameter.shape.elements(); ++i) store(parameter.value, i, parameter.init.scale);
  }
}

void store(const Tensor& tensor, std::int64_t index, double value) {
  switch (tensor.dtype) {
    case DType::f32: static_cast<float*>(tensor.data)[index] = static_cast<float>(value); return;
    case DType::f64: static_cast<double*>(tensor.data)[index] = value; return;
    case DType::c128: static_cast<std::complex<double>*>(tensor.data)[index] = value; return;
    case DType::bf16:
      static_cast<std::uint16_t*>(tensor.data)[index] = float_to_bf16(static_cast<float>(value));
      return;
    default: COMERA_CHECK(!"a floating-point tensor");
  }
}

double load(const Tensor& tensor, std::int64_t index) {
  double value = 0;
  load(tensor, index, {&value, 1});
  return value;
}

void load(const Tensor& tensor, std::int64_t first, std::span<double> values) {
  const auto all = [&]<class T>(auto number_of, T) {
    const T* from = static_cast<const T*>(tensor.data) + first;
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = number_of(from[i]);
  };
  const auto plain = [](auto number) { return static_cast<double>(number); };
  switch (tensor.dtype) {
    case DType::f32: return all(plain, float{});
    case DType::f64: return all(plain, double{});
    case DType::c128:
      return all([](const std::complex<double>& number) { return number.real(); }, std::complex<double>{});
    case DType::bf16: return all([](std::uint16_t bits) { return double{bf16_to_float(bits)}; }, std::uint16_t{});
    default: COMERA_CHECK(!"a floating-point tensor");
  }
}

}  // namespace comera::layers
