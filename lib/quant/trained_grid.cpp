#include "lib/quant/trained_grid.h"

#include <algorithm>
#include <cmath>

#include "lib/core/error.h"
#include "lib/core/half.h"
#include "lib/quant/levels.h"
#include "lib/tt/parallel.h"

namespace comera::quant {
namespace {

constexpr float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-12f;
constexpr float farthest = 0.45f;  // of a code's start from its whole number

// The code of a real code.
float whole(float code, float last) {
  const float low = code > 0 ? code : 0;
  return std::nearbyint(low < last ? low : last);
}

struct Adam {
  float rate, correction2;
  Adam(double largest, std::int64_t step) {
    const auto at = static_cast<double>(step + 1);
    rate = static_cast<float>(largest / (1 - std::pow(static_cast<double>(beta1), at)));
    correction2 = static_cast<float>(1 / (1 - std::pow(static_cast<double>(beta2), at)));
  }
  void move(float gradient, float& moment1, float& moment2, float& value) const {
    moment1 = beta1 * moment1 + (1 - beta1) * gradient;
    moment2 = beta2 * moment2 + (1 - beta2) * gradient * gradient;
    value -= rate * moment1 / (std::sqrt(moment2 * correction2) + epsilon);
  }
};

// sums += gradient (code - zero), plain += gradient: one row of the weight, one sum per output.
COMERA_AVX2 void add_row(std::span<const float> gradient, const float* codes, float zero, float last, float* sums,
                         float* plain) {
  for (std::size_t o = 0; o < gradient.size(); ++o) sums[o] += gradient[o] * (whole(codes[o], last) - zero);
  for (std::size_t o = 0; o < gradient.size(); ++o) plain[o] += gradient[o];
}

COMERA_AVX2 void expand_row(const float* codes, const float* scales, const float* least, float zero, float last,
                            std::span<float> weight) {
  for (std::size_t o = 0; o < weight.size(); ++o) weight[o] = scales[o] * (whole(codes[o], last) - zero) + least[o];
}

COMERA_AVX2 void step_all(const Adam& adam, std::span<const float> gradient, float* moment1, float* moment2,
                          float* values) {
  for (std::size_t i = 0; i < gradient.size(); ++i) adam.move(gradient[i], moment1[i], moment2[i], values[i]);
}

// Codes stay within half a code of the grid's ends, so that they can come back.
COMERA_AVX2 void step_row(const Adam& adam, std::span<const float> gradient, const float* scales, float last,
                          float* moment1, float* moment2, float* codes) {
  for (std::size_t o = 0; o < gradient.size(); ++o) {
    adam.move(gradient[o] * scales[o], moment1[o], moment2[o], codes[o]);
    const float low = codes[o] > -0.5f ? codes[o] : -0.5f;
    codes[o] = low < last + 0.5f ? low : last + 0.5f;
  }
}

}  // namespace

void TrainedGrid::Trained::start() {
  if (!moment1.empty()) return;
  moment1.assign(values.size(), 0);
  moment2.assign(values.size(), 0);
}

void TrainedGrid::Trained::take_size() {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  size = std::sqrt(sum / static_cast<double>(std::max<std::size_t>(values.size(), 1)));
}

TrainedGrid::TrainedGrid(const Quantised& base, std::span<const float> weight)
    : grid_(base.grid), in_(base.numbers), out_(base.lines) {
  COMERA_CHECK(std::ssize(weight) == in_ * out_);
  const std::int64_t line_size = line_bytes(grid_, in_), size = group_of(grid_);
  const float zero = kernels::grid_zero(grid_);
  codes_.values.resize(weight.size());
  scales_.values.resize(static_cast<std::size_t>(groups() * out_));
  least_.values.resize(scales_.values.size());
  for (std::int64_t o = 0; o < out_; ++o)
    for (std::int64_t g = 0; g < groups(); ++g) {
      const std::int64_t first = g * size, count = std::min(size, in_ - first);
      const Group read = read_group(grid_, base.bytes.data() + o * line_size + line_bytes(grid_, first), count);
      scales_.values[static_cast<std::size_t>(g * out_ + o)] = read.step.scale;
      least_.values[static_cast<std::size_t>(g * out_ + o)] = read.step.least;
      for (std::int64_t i = first; i < first + count; ++i) {
        const auto at = static_cast<std::size_t>(i * out_ + o);
        const auto code = static_cast<float>(read.codes[static_cast<std::size_t>(i - first)]);
        const float side = read.step.scale == 0 ? 0 : (weight[at] - read.step.least) / read.step.scale + zero - code;
        codes_.values[at] = code + std::clamp(side, -farthest, farthest);
      }
    }
  scales_.take_size();
  least_.take_size();
}

std::int64_t TrainedGrid::groups() const { return groups_of(grid_, in_); }

std::uint64_t TrainedGrid::bytes(Grid grid, std::int64_t in, std::int64_t out) {
  const std::int64_t scales = groups_of(grid, in) * out;
  return sizeof(float) * static_cast<std::uint64_t>(3 * in * out + (grid == Grid::q4_1 ? 6 : 4) * scales);
}

void TrainedGrid::step(std::span<const float> gradient, double rate, std::int64_t step) {
  COMERA_CHECK(std::ssize(gradient) == in_ * out_);
  codes_.start();
  scales_.start();
  if (grid_ == Grid::q4_1) least_.start();
  tt::each_alone(groups(), [&](std::int64_t number) { step_group(gradient, rate, step, number); });
}

// All rows of a group, then their scales.
void TrainedGrid::step_group(std::span<const float> gradient, double rate, std::int64_t step, std::int64_t number) {
  const auto outputs = static_cast<std::size_t>(out_), first = static_cast<std::size_t>(number) * outputs;
  const float zero = kernels::grid_zero(grid_), last = static_cast<float>(codes_of(grid_) - 1);
  const Adam adam(rate, step);
  std::vector<float> scales(outputs), least(outputs);
  for (std::int64_t i = number * group_of(grid_); i < std::min((number + 1) * group_of(grid_), in_); ++i) {
    const std::size_t row = static_cast<std::size_t>(i) * outputs;
    add_row(gradient.subspan(row, outputs), codes_.values.data() + row, zero, last, scales.data(), least.data());
    step_row(adam, gradient.subspan(row, outputs), scales_.values.data() + first, last, codes_.moment1.data() + row,
             codes_.moment2.data() + row, codes_.values.data() + row);
  }
  const auto step_of = [&](Trained& trained, std::span<const float> sums) {
    step_all({rate * trained.size, step}, sums, trained.moment1.data() + first, trained.moment2.data() + first,
             trained.values.data() + first);
  };
  step_of(scales_, scales);
  if (grid_ == Grid::q4_1) step_of(least_, least);
}

void TrainedGrid::expand(std::span<float> weight) const {
  const auto outputs = static_cast<std::size_t>(out_);
  const float zero = kernels::grid_zero(grid_), last = static_cast<float>(codes_of(grid_) - 1);
  tt::each_alone(groups(), [&](std::int64_t number) {
    const std::size_t first = static_cast<std::size_t>(number) * outputs;
    for (std::int64_t i = number * group_of(grid_); i < std::min((number + 1) * group_of(grid_), in_); ++i) {
      const std::size_t row = static_cast<std::size_t>(i) * outputs;
      expand_row(codes_.values.data() + row, scales_.values.data() + first, least_.values.data() + first, zero, last,
                 weight.subspan(row, outputs));
    }
  });
}

void TrainedGrid::round() {
  for (std::vector<float>* values : {&scales_.values, &least_.values})
    for (float& value : *values) value = half_to_float(float_to_half(value));
}

Quantised TrainedGrid::packed() const {
  Quantised result{grid_, out_, in_, {}};
  const float last = static_cast<float>(codes_of(grid_) - 1);
  result.bytes.resize(static_cast<std::size_t>(out_ * line_bytes(grid_, in_)));
  std::vector<std::uint8_t> numbers;
  for (std::int64_t o = 0; o < out_; ++o)
    for (std::int64_t first = 0; first < in_; first += group_of(grid_)) {
      numbers.clear();
      for (std::int64_t i = first; i < std::min(first + group_of(grid_), in_); ++i)
        numbers.push_back(
            static_cast<std::uint8_t>(whole(codes_.values[static_cast<std::size_t>(i * out_ + o)], last)));
      const auto at = static_cast<std::size_t>(first / group_of(grid_) * out_ + o);
      pack(grid_, {scales_.values[at], least_.values[at]}, numbers, group_in(result, o, first));
    }
  return result;
}

}  // namespace comera::quant
