// Norms whose input is restored from their output (share), against the same norms that keep it.
#include "kernels/norm_output.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <deque>

#include "lib/layers/norm.h"
#include "tests/layers/walks.h"

using namespace comera;
using kernels::NormKind;
using layers::Recompute;
using layers::Tensor;
using layers::Walk;

namespace {

constexpr std::int64_t tokens = 7, columns = 40, count = tokens * columns;  // 2 columns are picked
constexpr double u = 0x1p-53;

using Numbers = std::vector<double>;

std::size_t at(std::int64_t k, std::int64_t j) { return static_cast<std::size_t>(k * columns + j); }

// Gains of 0 and of 1e-9 beside some of .3 to 1.1 of both signs, and shifts of up to 3.
Numbers gains() {
  Numbers gain(columns);
  for (std::int64_t j = 0; j < columns; ++j)
    gain[static_cast<std::size_t>(j)] = (j % 2 ? 1 : -1) * (0.7 + 0.4 * std::sin(static_cast<double>(j)));
  gain[5] = 0, gain[17] = 1e-9;
  return gain;
}
Numbers shifts() {
  Numbers shift(columns);
  for (std::int64_t j = 0; j < columns; ++j) shift[static_cast<std::size_t>(j)] = 3 * std::cos(static_cast<double>(j));
  return shift;
}

// A forward and backward of one norm on the reference in f64.
struct Run {
  Numbers y, d_sum, d_gain, d_shift;

  Run(NormKind kind, Recompute recompute, const Numbers& x, const Numbers& dy, double output_dropout = 0) {
    std::vector<layers::ChainParameters> chains;
    plan::Slab factors, step_gradients;
    layers::TtMerger merger(chains, factors, step_gradients);
    layers::CastWeights cast_weights(DType::f64);
    layers::Parameters parameters(DType::f64);
    double threshold = 0.01;
    std::int64_t dense = 0;
    layers::Builder builder{DType::f64, parameters,   chains,    factors, step_gradients,
                            merger,     cast_weights, threshold, dense};
    layers::ResidualNorm norm(builder, "norm", columns, {kind, 1e-5, 0, output_dropout});
    const auto sink = layers::make_accumulate_sink(parameters, step_gradients);
    std::deque<Numbers> memory;
    const auto bind = [&](auto& slab) { slab.bind(memory.emplace_back(slab.bytes() / sizeof(double) + 16).data()); };
    bind(parameters);
    bind(step_gradients);
    place(gains(), parameters.all().front().value);
    if (kind == NormKind::layer) place(shifts(), parameters.all().back().value);
    const kernels::StepScalars scalars;
    const std::int64_t samples[1] = {};
    walk_twice(DType::f64, [&](Walk& walk) {
      sink->begin(walk);
      layers::Pass pass{walk, layers::SavePolicy(recompute), 1, tokens, &scalars, samples};
      layers::Value out = norm.forward(pass, placed(walk, x), {});
      y = numbers(walk, out.tensor);
      walk.drop(out.tensor);
      walk.backward_begins();
      Tensor gradient = norm.backward(pass, *sink, placed(walk, dy), {}, nullptr);
      d_sum = numbers(walk, gradient);
      walk.drop(gradient);
      d_gain = numbers(walk, sink->gradient(parameters.all().front()));
      if (kind == NormKind::layer) d_shift = numbers(walk, sink->gradient(parameters.all().back()));
      sink->release(walk);
    });
  }

  static void place(const Numbers& values, const Tensor& tensor) {
    std::copy(values.begin(), values.end(), static_cast<double*>(tensor.data));
  }
  static Tensor placed(Walk& walk, const Numbers& values) {
    const Tensor tensor = walk.make("placed", {tokens, columns});
    if (walk.computes()) place(values, tensor);
    return tensor;
  }
  static Numbers numbers(const Walk& walk, const Tensor& tensor) {
    const auto* data = static_cast<const double*>(tensor.data);
    return walk.computes() ? Numbers(data, data + tensor.elements()) : Numbers();
  }
};

// Bounds of the differences between a norm that keeps its input and one that restores it, to first order in u.
struct Bounds {
  Numbers d_sum = Numbers(count), d_gain = Numbers(columns);

  Bounds(NormKind kind, const Numbers& s, const Numbers& dy) {
    const Numbers gain = gains(), shift = kind == NormKind::layer ? shifts() : Numbers(columns);
    for (std::int64_t k = 0; k < tokens; ++k) {
      double mean = 0, squares = 0;
      for (std::int64_t j = 0; kind == NormKind::layer && j < columns; ++j) mean += s[at(k, j)] / columns;
      for (std::int64_t j = 0; j < columns; ++j) squares += std::pow(s[at(k, j)] - mean, 2) / columns;
      row(kind, k, s, dy, gain, shift, mean, 1 / std::sqrt(squares + 1e-5));
    }
  }

  // h = (s - mean) rstd has two roundings in either norm. y = h gain + shift adds two, of |h gain| and of |y|, which
  // the division turns into |h| and |y| / |gain|. A difference, a product and a quotient are three of |h|; the sum with
  // the mean is one of |s| rstd.
  void row(NormKind kind, std::int64_t k, const Numbers& s, const Numbers& dy, const Numbers& gain,
           const Numbers& shift, double mean, double rstd) {
    Numbers h(columns), g(columns), error(columns);
    double g_mean = 0, gh_mean = 0, gh_size = 0, gh_error = 0;
    for (std::int64_t j = 0; j < columns; ++j) {
      const auto i = static_cast<std::size_t>(j);
      h[i] = (s[at(k, j)] - mean) * rstd, g[i] = dy[at(k, j)] * gain[i];
      if (std::abs(gain[i]) > 1e-8)  // others are kept from the input
        error[i] = u * (std::abs(h[i] * gain[i] + shift[i]) / std::abs(gain[i]) + 10 * std::abs(h[i]) +
                        std::abs(s[at(k, j)]) * rstd);
      if (kind == NormKind::layer) g_mean += g[i] / columns;
      gh_mean += g[i] * h[i] / columns, gh_size += std::abs(g[i] * h[i]) / columns;
      gh_error += std::abs(g[i]) * error[i] / columns;
      d_gain[i] += std::abs(dy[at(k, j)]) * error[i] + 2 * (tokens + 1) * u * std::abs(dy[at(k, j)] * h[i]);
    }
    gh_error += 2 * (columns + 2) * u * gh_size;
    for (std::int64_t j = 0; j < columns; ++j) {
      const auto i = static_cast<std::size_t>(j);
      d_sum[at(k, j)] = rstd * (error[i] * std::abs(gh_mean) + std::abs(h[i]) * gh_error +
                                6 * u * (std::abs(g[i]) + std::abs(g_mean) + std::abs(h[i] * gh_mean)));
    }
  }
};

struct Difference {
  double largest = 0, of_bound = 0;
};
Difference difference(const Numbers& a, const Numbers& b, const Numbers& bound) {
  REQUIRE(a.size() == b.size());
  Difference found;
  for (std::size_t i = 0; i < a.size(); ++i) {
    REQUIRE(std::isfinite(b[i]));
    found.largest = std::max(found.largest, std::abs(a[i] - b[i]));
    found.of_bound = std::max(found.of_bound, std::abs(a[i] - b[i]) / bound[i]);
  }
  return found;
}

}  // namespace

TEST_CASE("share: gradients of a norm from its output are within the derived bound of those from its input") {
  Numbers x(count), dy(count);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 1.5 + 2 * std::sin(0.9 * static_cast<double>(i * i));
  for (std::size_t i = 0; i < dy.size(); ++i) dy[i] = std::cos(0.7 * static_cast<double>(i));
  for (const NormKind kind : {NormKind::layer, NormKind::rms}) {
    CAPTURE(static_cast<int>(kind));
    const Run kept(kind, Recompute::none, x, dy), shared(kind, Recompute::share, x, dy);
    const Bounds bounds(kind, x, dy);
    CHECK(shared.y == kept.y);
    CHECK(shared.d_shift == kept.d_shift);
    const Difference of_sum = difference(kept.d_sum, shared.d_sum, bounds.d_sum),
                     of_gain = difference(kept.d_gain, shared.d_gain, bounds.d_gain);
    CHECK(of_sum.of_bound <= 1);
    CHECK(of_gain.of_bound <= 1);
    CHECK(of_sum.largest > 0);      // restored, not kept
    CHECK(of_sum.largest < 1e-13);  // the bounds are no larger than roundings of numbers near 1
    CHECK(shared.d_gain[5] == kept.d_gain[5]);
    CHECK(shared.d_gain[17] == kept.d_gain[17]);
  }
}

// An output with dropout cannot give the input.
TEST_CASE("share: a norm with dropout behind it keeps its input, and its gradients their bits") {
  Numbers x(count), dy(count);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<double>(i * i)), dy[i] = std::cos(x[i] + 1);
  const Run kept(NormKind::layer, Recompute::none, x, dy, 0.25), shared(NormKind::layer, Recompute::share, x, dy, 0.25);
  CHECK(kept.d_sum == shared.d_sum);
  CHECK(kept.d_gain == shared.d_gain);
}
