// P is used in several places of a step and on several devices, so every backend must give the bits of the reference;
// its moments are checked on the reference.
#include "kernels/sketch.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "tests/kernels/harness/call.h"
#include "tests/kernels/harness/placed.h"

namespace comera::kernels::test {
namespace {

using Floats = std::vector<float>;

Floats drawn_by(const Column& column, const Sketch& sketch, const StepScalars& scalars, bool transposed = false,
                double scale = 1) {
  const Placed<float> p(column, Floats(static_cast<std::size_t>(sketch.inputs * sketch.rank), NAN));
  const Placed<StepScalars> key(column, {scalars});
  const DrawSketch call{sketch, scale, key.data(), transposed, p.data()};
  Context context = context_of(column);
  const auto& op = column.backend->draw_sketch;
  const Placed<std::uint8_t> workspace(
      column, std::vector<std::uint8_t>(op.workspace_bytes ? op.workspace_bytes(context, call) + 1 : 1));
  context.workspace = workspace.data(), context.workspace_bytes = workspace.read().size();
  REQUIRE(op.run(context, call) == Status::ok);
  return p.read();
}

const Column plain{"reference f32", &reference_backend(), nullptr, {}};

const std::vector<SketchKind> kinds = {SketchKind::normal, SketchKind::sparse, SketchKind::orthonormal,
                                       SketchKind::count};

Sketch of(SketchKind kind, std::int64_t inputs, std::int64_t rank) {
  return {.kind = kind, .inputs = inputs, .rank = rank};
}

// Mean over `draws` of f(P).
template <class F>
void for_draws(const Sketch& sketch, int draws, F f) {
  for (int draw = 0; draw < draws; ++draw)
    f(drawn_by(plain, sketch, {.seed = 3, .step = static_cast<std::uint64_t>(draw)}));
}

// |P P^T g - g|^2 / |g|^2.
double error_of(const Floats& p, const Floats& g, std::size_t rank) {
  std::vector<double> within(rank);
  for (std::size_t i = 0; i < g.size(); ++i)
    for (std::size_t j = 0; j < rank; ++j) within[j] += static_cast<double>(p[i * rank + j]) * g[i];
  double error = 0, size = 0;
  for (std::size_t i = 0; i < g.size(); ++i) {
    double back = -g[i];
    for (std::size_t j = 0; j < rank; ++j) back += p[i * rank + j] * within[j];
    error += back * back, size += static_cast<double>(g[i]) * g[i];
  }
  return error / size;
}

}  // namespace

TEST_CASE("sketch: every backend gives the bits of the reference") {
  const StepScalars scalars{.seed = 11, .step = 7};
  for (const Column& column : columns())
    for (const SketchKind kind : kinds)
      for (const auto& [inputs, rank] :
           std::vector<std::pair<int, int>>{{1, 1}, {7, 3}, {64, 16}, {100, 100}, {300, 66}})
        for (const bool transposed : {false, true}) {
          CAPTURE(column.name, static_cast<int>(kind), inputs, rank, transposed);
          const Sketch sketch{kind, inputs, rank, 3, 5};
          const Floats wanted = drawn_by(plain, sketch, scalars, transposed, 0.25);
          for (std::size_t variation = 0; variation <= column.variations.size(); ++variation) {
            if (variation > 0) column.variations[variation - 1]();
            CHECK(drawn_by(column, sketch, scalars, transposed, 0.25) == wanted);
          }
        }
}

TEST_CASE("sketch: P^T has the entries of P, and a scale multiplies them") {
  for (const SketchKind kind : kinds) {
    const Sketch sketch = of(kind, 30, 9);
    const Floats p = drawn_by(plain, sketch, {.seed = 1}), turned = drawn_by(plain, sketch, {.seed = 1}, true, 4);
    for (std::size_t i = 0; i < 30; ++i)
      for (std::size_t j = 0; j < 9; ++j) CHECK(turned[j * 30 + i] == 4 * p[i * 9 + j]);
  }
}

TEST_CASE("sketch: P stays for the refresh interval and differs by seed, interval and site") {
  for (const SketchKind kind : kinds) {
    Sketch sketch = of(kind, 40, 8);
    sketch.refresh = 50;
    const Floats first = drawn_by(plain, sketch, {.seed = 1, .step = 0});
    CHECK(drawn_by(plain, sketch, {.seed = 1, .step = 49}) == first);
    CHECK(drawn_by(plain, sketch, {.seed = 1, .step = 50}) != first);
    CHECK(drawn_by(plain, sketch, {.seed = 2, .step = 0}) != first);
    sketch.site = 1;
    CHECK(drawn_by(plain, sketch, {.seed = 1, .step = 0}) != first);
  }
}

// Entries of P P^T have a variance of at most 2 / r off and on the diagonal, or n / r - 1 for orthonormal P; the bound
// is six standard deviations of the mean.
TEST_CASE("sketch: the expectation of P P^T is I") {
  constexpr std::size_t n = 24, r = 6;
  constexpr int draws = 3000;
  for (const SketchKind kind : kinds) {
    std::vector<double> mean(n * n);
    for_draws(of(kind, n, r), draws, [&](const Floats& p) {
      for (std::size_t i = 0; i < n; ++i)
        for (std::size_t k = 0; k < n; ++k)
          mean[i * n + k] += std::inner_product(&p[i * r], &p[i * r] + r, &p[k * r], 0.0) / draws;
    });
    const double deviation = kind == SketchKind::orthonormal ? std::sqrt(n / double{r} - 1) : std::sqrt(3.0 / r);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t k = 0; k < n; ++k)
        CHECK(std::abs(mean[i * n + k] - (i == k ? 1 : 0)) < 6 * deviation / std::sqrt(draws));
  }
}

TEST_CASE("sketch: orthonormal columns are orthonormal up to their scale, without repetition") {
  for (const auto& [n, r] : std::vector<std::pair<std::size_t, std::size_t>>{{24, 6}, {100, 100}, {37, 36}}) {
    const Floats p = drawn_by(
        plain, of(SketchKind::orthonormal, static_cast<std::int64_t>(n), static_cast<std::int64_t>(r)), {.seed = 5});
    for (std::size_t a = 0; a < r; ++a)
      for (std::size_t b = 0; b < r; ++b) {
        double dot = 0;
        for (std::size_t i = 0; i < n; ++i) dot += static_cast<double>(p[i * r + a]) * p[i * r + b];
        // An entry has an error of 1e-7 of its unit; a column has n of them.
        CHECK(std::abs(dot * static_cast<double>(r) / static_cast<double>(n) - (a == b ? 1 : 0)) < 1e-6);
      }
  }
}

// The published errors: sqrt((n + 1) / r), here with the kurtosis of 32 coins, sqrt((n + 2) / r) with that of density
// 1/4, sqrt(n / r - 1) of the last two. The squared error of one draw has a relative deviation below 1; six of the
// mean's.
TEST_CASE("sketch: the error of a projected gradient is the derived one") {
  constexpr std::size_t n = 256;
  constexpr int draws = 200;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  Floats g(n);
  for (float& x : g) x = normal(random);
  for (const std::size_t r : {n / 2, n / 4, n / 8})
    for (const SketchKind kind : kinds) {
      double mean = 0;
      for_draws(of(kind, n, static_cast<std::int64_t>(r)), draws,
                [&](const Floats& p) { mean += error_of(p, g, r) / draws; });
      const double ratio = n / static_cast<double>(r);
      const bool spread = kind == SketchKind::orthonormal || kind == SketchKind::count;
      const double wanted = spread ? ratio - 1 : ratio + 1 / static_cast<double>(r);
      CAPTURE(static_cast<int>(kind), r);
      CHECK(std::abs(mean / wanted - 1) < 6 * 0.3 / std::sqrt(draws));
    }
}

// z = X P and result += scale P t by their sums, against the drawn P in double. A sum of q numbers of unit roundoff u
// is within q u of the sum of their sizes.
TEST_CASE("sketch: a count sketch is applied without its matrix") {
  int checked = 0;
  for (const Column& column : columns()) {
    if (!column.backend->sketch_columns.run) continue;
    const cuda::OnColumn on(column);
    for (const auto& [n, r] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {1, 1}, {7, 3}, {64, 16}, {100, 33}, {768, 192}, {1300, 600}, {40, 64}}) {
      CAPTURE(column.name, n, r);
      constexpr std::int64_t tokens = 19, out = 21;
      const StepScalars scalars{.seed = 11, .step = 7};
      const Sketch sketch{SketchKind::count, n, r, 3, 5};
      const Floats p = drawn_by(plain, sketch, scalars), x = cuda::numbers(tokens * n, 1),
                   t = cuda::numbers(r * out, 2), before = cuda::numbers(n * out, 3);
      cuda::Call call(DType::f32);
      const StepScalars* key = call.scalars(scalars);
      void* z = call.activations(Floats(static_cast<std::size_t>(tokens * r), NAN));
      call.run(cuda::backend().sketch_columns, SketchColumns{sketch, key, tokens, call.activations(x), z});
      void* result = call.f32(before);
      call.run(cuda::backend().sketch_rows, SketchRows{sketch, 0.25, key, out, call.f32(t), result});
      const Floats sums = call.read_f32(z, static_cast<std::size_t>(tokens * r)),
                   rows = call.read_f32(result, before.size());
      const double bound = (static_cast<double>(n) / static_cast<double>(r) + 1) * 0x1p-24;
      const auto at = [](const Floats& numbers, std::int64_t i) {
        return static_cast<double>(numbers[static_cast<std::size_t>(i)]);
      };
      for (std::int64_t k = 0; k < tokens; ++k)
        for (std::int64_t j = 0; j < r; ++j) {
          double sum = 0, size = 0;
          for (std::int64_t i = 0; i < n; ++i) {
            const double term = at(x, k * n + i) * at(p, i * r + j);
            sum += term, size += std::abs(term);
          }
          REQUIRE(std::abs(at(sums, k * r + j) - sum) <= bound * size);
        }
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t j = 0; j < out; ++j) {
          double sum = at(before, i * out + j), size = std::abs(sum);
          for (std::int64_t c = 0; c < r; ++c) {
            const double term = 0.25 * at(p, i * r + c) * at(t, c * out + j);
            sum += term, size += std::abs(term);
          }
          REQUIRE(std::abs(at(rows, i * out + j) - sum) <= 2 * 0x1p-24 * size);
        }
      ++checked;
    }
  }
  CHECK(checked > 0);
}

}  // namespace comera::kernels::test
