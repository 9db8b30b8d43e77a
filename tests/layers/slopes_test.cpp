// The tables of act2bit, and the gradients of a layer with them.
#include "lib/layers/activations/slopes.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <deque>
#include <limits>

#include "kernels/reference/scalar.h"
#include "lib/layers/activations/policy.h"
#include "lib/layers/linear.h"
#include "tests/layers/walks.h"

using namespace comera;
using kernels::Activation;
using kernels::SlopeTable;
using layers::SlopeFit;
using layers::Tensor;
using layers::Walk;

namespace {

constexpr double far = 8;  // N(0, 1) has 1e-15 of its mass beyond

double derivative(Activation activation, double x) { return kernels::reference::activation_derivative(activation, x); }

// Integral of f over [from, to] by the midpoint rule.
template <class F>
double integral(double from, double to, F f) {
  constexpr int cells = 4000;
  const double width = (to - from) / cells;
  double sum = 0;
  for (int i = 0; i < cells; ++i) sum += f(from + (i + 0.5) * width);
  return sum * width;
}
template <class F>
double mean_under_normal(double from, double to, F f) {
  return integral(from, to, [&](double x) { return f(x) * kernels::reference::normal_density(x); });
}

int code_of(const SlopeTable& table, double x) { return (x > table.cut[0]) + (x > table.cut[1]) + (x > table.cut[2]); }

// E (act' - slope)^2 for inputs from N(0, 1).
double squared_error(const SlopeTable& table, Activation activation) {
  const double ends[] = {-far, table.cut[0], table.cut[1], table.cut[2], far};
  double sum = 0;
  for (int k = 0; k < 4; ++k)
    sum += mean_under_normal(ends[k], ends[k + 1], [&](double x) {
      return std::pow(derivative(activation, x) - static_cast<double>(table.slope[k]), 2);
    });
  return sum;
}
double squared_derivative(Activation activation) {
  return mean_under_normal(-far, far, [&](double x) { return std::pow(derivative(activation, x), 2); });
}

struct Fit {
  double cut[3], error;
};

// The best step function of four values with its cuts on a grid of 1,440 cells, by dynamic programming over the cells:
// best[k][j] is the least error of the first j cells with k + 1 values.
Fit best_on_grid(Activation activation, double width) {
  constexpr int cells = 1440;
  const double begin = -width * cells / 2;
  double mass[cells + 1] = {}, first[cells + 1] = {}, second[cells + 1] = {};
  for (int i = 0; i < cells; ++i) {
    const double x = begin + (i + 0.5) * width, f = derivative(activation, x),
                 w = width * kernels::reference::normal_density(x);
    mass[i + 1] = mass[i] + w, first[i + 1] = first[i] + w * f, second[i + 1] = second[i] + w * f * f;
  }
  const auto error = [&](int i, int j) {
    return second[j] - second[i] - std::pow(first[j] - first[i], 2) / (mass[j] - mass[i]);
  };
  std::vector<double> best[4];
  std::vector<int> last[4];
  for (int k = 0; k < 4; ++k) {
    best[k].assign(cells + 1, std::numeric_limits<double>::infinity());
    last[k].assign(cells + 1, 0);
    for (int j = k + 1; j <= cells; ++j)
      for (int i = k; i < (k == 0 ? 1 : j); ++i) {
        const double sum = (k == 0 ? 0 : best[k - 1][i]) + error(i, j);
        if (sum < best[k][j]) best[k][j] = sum, last[k][j] = i;
      }
  }
  Fit fit{{}, best[3][cells]};
  for (int k = 3, j = cells; k > 0; --k) j = last[k][j], fit.cut[k - 1] = begin + j * width;
  return fit;
}

// Moves the cuts of a fit to the stationary point near it: a slope is the mean of the derivative between its cuts, and
// at a cut the derivative is halfway between two slopes.
SlopeTable stationary(Activation activation, Fit fit) {
  SlopeTable table;
  double slope[4];
  for (int round = 0; round < 60; ++round) {
    const double ends[] = {-far, fit.cut[0], fit.cut[1], fit.cut[2], far};
    for (int k = 0; k < 4; ++k)
      slope[k] = mean_under_normal(ends[k], ends[k + 1], [&](double x) { return derivative(activation, x); }) /
                 mean_under_normal(ends[k], ends[k + 1], [](double) { return 1.0; });
    for (int k = 0; k < 3; ++k) {
      double low = fit.cut[k] - 0.2, high = fit.cut[k] + 0.2;  // the derivative rises there
      for (int i = 0; i < 50; ++i) {
        const double middle = (low + high) / 2;
        (2 * derivative(activation, middle) < slope[k] + slope[k + 1] ? low : high) = middle;
      }
      fit.cut[k] = low;
    }
  }
  for (int k = 0; k < 3; ++k) table.cut[k] = static_cast<float>(fit.cut[k]);
  for (int k = 0; k < 4; ++k) table.slope[k] = static_cast<float>(slope[k]);
  return table;
}

// A layer on the reference in f64, with inputs, output gradients and results in vectors.
struct Run {
  using Numbers = std::vector<double>;
  static constexpr std::int64_t tokens = 7, in = 5, out = 6;

  Numbers y, dx, d_weight, d_bias;

  Run(Activation activation, layers::Keeper& keeper, const Numbers& x_values, const Numbers& dy_values) {
    std::vector<layers::ChainParameters> chains;
    plan::Slab factors, step_gradients;
    layers::TtMerger merger(chains, factors, step_gradients);
    layers::CastWeights cast_weights(DType::f64);
    layers::Parameters parameters(DType::f64);
    double threshold = 0.01;
    std::int64_t dense = 0;
    layers::Builder builder{DType::f64, parameters,   chains,    factors, step_gradients,
                            merger,     cast_weights, threshold, dense};
    layers::LinearSet set = layers::LinearSet::make(builder, {{.name = "dense", .out = out}}, in, activation);
    const auto sink = layers::make_accumulate_sink(parameters, step_gradients);
    std::deque<Numbers> memory;
    const auto bind = [&](auto& slab) { slab.bind(memory.emplace_back(slab.bytes() / sizeof(double) + 16).data()); };
    bind(parameters);
    bind(cast_weights.copies());
    bind(step_gradients);
    parameters.initialise(3);
    walk_twice(DType::f64, [&](Walk& walk) { cast_weights.prepare(walk); });
    walk_twice(DType::f64, [&](Walk& walk) {
      sink->begin(walk);
      keeper.begin(nullptr);
      layers::Pass pass{walk, layers::SavePolicy(layers::Recompute::none, true, keeper), 1, tokens};
      Tensor x = placed(walk, x_values, in), output;
      set.forward(pass, {x, nullptr}, &output);
      walk.drop(x);
      y = numbers(walk, output);
      walk.drop(output);
      walk.backward_begins();
      Tensor dy = placed(walk, dy_values, out), gradient = walk.make("dx", {tokens, in});
      set.backward(pass, *sink, &dy, gradient, false);
      dx = numbers(walk, gradient);
      walk.drop(gradient);
      d_weight = numbers(walk, sink->gradient(parameters.all().front()));
      d_bias = numbers(walk, sink->gradient(parameters.all().back()));
      sink->release(walk);
    });
  }

  static Tensor placed(Walk& walk, const Numbers& values, std::int64_t columns) {
    Tensor tensor = walk.make("placed", {tokens, columns});
    if (walk.computes()) std::copy(values.begin(), values.end(), static_cast<double*>(tensor.data));
    return tensor;
  }
  static Numbers numbers(const Walk& walk, const Tensor& tensor) {
    const auto* data = static_cast<const double*>(tensor.data);
    return walk.computes() ? Numbers(data, data + tensor.elements()) : Numbers();
  }
};

}  // namespace

TEST_CASE("act2bit: the tables are the best step functions of the derivative under N(0, 1)") {
  for (const Activation activation : {Activation::gelu, Activation::silu}) {
    const SlopeTable table = layers::slope_table(activation, SlopeFit::derivative);
    constexpr double width = 1.0 / 128;
    const Fit fit = best_on_grid(activation, width);
    const SlopeTable found = stationary(activation, fit);
    for (int k = 0; k < 3; ++k) {
      CHECK(std::abs(fit.cut[k] - static_cast<double>(table.cut[k])) <= width);
      CHECK(std::abs(found.cut[k] - table.cut[k]) <= 2e-6f);
    }
    for (int k = 0; k < 4; ++k) CHECK(std::abs(found.slope[k] - table.slope[k]) <= 1e-6f);
    // The grid has one number per cell, in which the derivative varies by less than the width.
    CHECK(squared_error(table, activation) <= fit.error + width * width / 12);
  }
}

// Root mean square errors of the derivative, and the same relative to that of the derivative.
TEST_CASE(
    "act2bit: the derivative differs by 13 % for GELU and 14 % for SiLU, by 36 % and 47 % with the paper's table") {
  const auto absolute = [](Activation activation, SlopeFit fit) {
    return std::sqrt(squared_error(layers::slope_table(activation, fit), activation));
  };
  const auto relative = [&](Activation activation, SlopeFit fit) {
    return absolute(activation, fit) / std::sqrt(squared_derivative(activation));
  };
  CHECK(absolute(Activation::gelu, SlopeFit::derivative) == Approx(0.0894).margin(5e-5));
  CHECK(absolute(Activation::silu, SlopeFit::derivative) == Approx(0.0889).margin(5e-5));
  CHECK(relative(Activation::gelu, SlopeFit::derivative) == Approx(0.1325).margin(5e-5));
  CHECK(relative(Activation::silu, SlopeFit::derivative) == Approx(0.1442).margin(5e-5));
  CHECK(relative(Activation::gelu, SlopeFit::primitive) == Approx(0.36).margin(0.005));
  CHECK(relative(Activation::silu, SlopeFit::primitive) == Approx(0.47).margin(0.005));
}

// h = sum_i a_i max(x - c_i, 0) tends to 0 and to x, and is near the activation.
TEST_CASE("act2bit: the tables of Approx-BP are derivatives of three ReLUs") {
  const double distance[] = {0.0095, 0.040};  // integral of (act - h)^2
  for (const Activation activation : {Activation::gelu, Activation::silu}) {
    const SlopeTable table = layers::slope_table(activation, SlopeFit::primitive);
    double sum = 0, moment = 0;
    const auto a = [&](int i) { return static_cast<double>(table.slope[i + 1]) - static_cast<double>(table.slope[i]); };
    for (int i = 0; i < 3; ++i) sum += a(i), moment += a(i) * static_cast<double>(table.cut[i]);
    CHECK(table.slope[0] == 0);
    CHECK(sum == 1);
    CHECK(std::abs(moment) <= 1e-6);
    const double found = integral(-40, 40, [&](double x) {
      double h = 0;
      for (int i = 0; i < 3; ++i) h += a(i) * std::max(x - static_cast<double>(table.cut[i]), 0.0);
      return std::pow(kernels::reference::activate(activation, x) - h, 2);
    });
    CHECK(found == Approx(distance[activation == Activation::silu]).epsilon(0.02));
  }
}

// The backward of the layer is that of a linear layer without activation for dy times the slopes.
TEST_CASE("act2bit: the output of a layer is exact, its gradients are those of dy times the slopes, to the bit") {
  Run::Numbers x(Run::tokens * Run::in), dy(Run::tokens * Run::out);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 3 * std::sin(0.9 * static_cast<double>(i));
  for (std::size_t i = 0; i < dy.size(); ++i) dy[i] = std::cos(0.7 * static_cast<double>(i));
  for (const Activation activation : {Activation::gelu, Activation::silu})
    for (const SlopeFit fit : {SlopeFit::derivative, SlopeFit::primitive}) {
      layers::RuledKeeper keeper(
          layers::parse_activations({fit == SlopeFit::derivative ? "act2bit" : "act2bit-approxbp"}));
      const Run found(activation, keeper, x, dy), exact(activation, layers::exact_keeper(), x, dy),
          pre(Activation::none, layers::exact_keeper(), x, dy);
      const SlopeTable table = layers::slope_table(activation, fit);
      Run::Numbers times_slope = dy;
      for (std::size_t i = 0; i < dy.size(); ++i)
        times_slope[i] *= static_cast<double>(table.slope[code_of(table, pre.y[i])]);
      const Run wanted(Activation::none, layers::exact_keeper(), x, times_slope);
      CHECK(found.y == exact.y);
      CHECK(found.dx == wanted.dx);
      CHECK(found.d_weight == wanted.d_weight);
      CHECK(found.d_bias == wanted.d_bias);
      CHECK(found.dx != exact.dx);
    }
}
