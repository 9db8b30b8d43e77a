#include "kernels/muon.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "kernels/reference/muon.h"
#include "tests/kernels/harness/cases.h"
#include "tests/kernels/harness/placed.h"

namespace comera::kernels::test {
namespace {

struct Matrix {
  std::int64_t rows, columns;
};
using Matrices = std::vector<Matrix>;

std::string numbered(const char* name, std::size_t i) { return std::string(name).append(std::to_string(i)); }

Case muon(const std::string& name, const Matrices& matrices, const StepScalars& scalars = {}) {
  Case c("muon " + name);
  c.bytes("scalars", scalars);
  c.bytes("group0", AdamwScalars{.learning_rate = 1e-3, .weight_decay = 0.1});
  c.bytes("group1", AdamwScalars{.learning_rate = 3e-2, .weight_decay = 0});
  for (std::size_t i = 0; i < matrices.size(); ++i)
    for (const char* what : {"value", "gradient", "momentum"})
      c.data(numbered(what, i), matrices[i].rows, matrices[i].columns);
  c.forward = [=](Run& r) {
    r.call(&Backend::muon, [&] {
      auto& tensors = *r.keep(std::vector<MuonTensor>(matrices.size()));
      for (std::size_t i = 0; i < matrices.size(); ++i)
        tensors[i] = {.rows = matrices[i].rows,
                      .columns = matrices[i].columns,
                      .value = r.out(numbered("value", i)),
                      .gradient = r.in(numbered("gradient", i)),
                      .momentum = r.out(numbered("momentum", i)),
                      .scalars = static_cast<const AdamwScalars*>(r.in(i % 2 ? "group1" : "group0")),
                      .rate_scale = i % 3 == 2 ? 0.25F : 1};
      return Muon{
          .tensors = tensors.data(), .count = static_cast<int>(tensors.size()), .scalars = r.scalars("scalars")};
    });
  };
  return c;
}

// Tall, wide, square, vectors, sizes that fill no vector and those beyond the small products' code; more matrices than
// lanes.
const Matrix tall{40, 7}, wide{5, 33}, square{16, 16}, row{1, 9}, column{11, 1}, one{1, 1};
const Matrices many = {tall, wide, row, square, column, one, tall, wide, square, {128, 32}, {32, 128}, {150, 70}};

std::vector<Case> muon_cases() {
  StepScalars clipped, diverged;
  clipped.gradient_scale = 0.37, diverged.finite = 0;
  return {muon("tall", {tall}), muon("many", many), muon("clipped", {wide, tall}, clipped),
          muon("not finite", {tall, wide}, diverged)};
}

// Runs the op once, with memory that holds NaN where the op has not written.
void run_once(const Column& on, const Muon& call) {
  const auto& op = on.backend->muon;
  Context context = context_of(on);
  context.workspace_bytes = op.workspace_bytes ? op.workspace_bytes(context, call) : 0;
  const Placed<float> workspace(on, std::vector<float>(context.workspace_bytes / sizeof(float) + 1, NAN));
  context.workspace = workspace.data();
  REQUIRE(op.run(context, call) == Status::ok);
}

// A bound of |X - X'|, X' the result in float of five iterations on X, in the Frobenius norm; other ways to compute it
// must not have a larger error. An iteration multiplies a difference by at most the largest slope of its polynomial for
// singular values up to 1.2, which is below 4.25. It adds the rounding of its sums: a share sqrt(terms) u (Higham and
// Mary 2019, SIAM J. Sci. Comput. 41, A2815) of the sum of its three terms' norms, which is below 18 sqrt(shorter).
double bound_of(const Matrix& matrix) {
  const MuonShape s = muon_shape(matrix.rows, matrix.columns);
  double slopes = 0;
  for (int iteration = 0; iteration < muon_iterations; ++iteration) slopes = 4.25 * slopes + 1;
  return slopes * 18 * std::sqrt(static_cast<double>(s.shorter * (s.longer + 2 * s.shorter + 1))) * 0x1p-24;
}

std::vector<float> numbers(std::int64_t count, double phase) {
  std::vector<float> all;
  for (std::int64_t i = 0; i < count; ++i)
    all.push_back(static_cast<float>(std::sin(phase + 1.7 * static_cast<double>(i * i % 1009))));
  return all;
}
std::vector<double> wide_numbers(const std::vector<float>& from) { return {from.begin(), from.end()}; }

}  // namespace

TEST_CASE("muon: every backend within the derived bound of the reference") {
  for (const Column& on : columns())
    for (const Matrix& matrix : many) {
      CAPTURE(on.name, matrix.rows, matrix.columns);
      const std::int64_t count = matrix.rows * matrix.columns;
      const AdamwScalars rates{.learning_rate = 0.5, .weight_decay = 0.25};
      const StepScalars step{.gradient_scale = 0.37};
      const std::vector<float> start = numbers(count, 1), slope = numbers(count, 2), average = numbers(count, 3);
      std::vector<double> exact = wide_numbers(start), momentum = wide_numbers(average);
      const std::vector<double> gradient = wide_numbers(slope);
      MuonTensor tensor{matrix.rows, matrix.columns, exact.data(), gradient.data(), momentum.data(), &rates, 0.5F};
      reference::compute<double>({.tensors = &tensor, .count = 1, .scalars = &step});

      const Placed<float> value(on, start), on_gradient(on, slope), on_momentum(on, average);
      const Placed<AdamwScalars> on_rates(on, {rates});
      const Placed<StepScalars> on_step(on, {step});
      tensor.value = value.data(), tensor.gradient = on_gradient.data(), tensor.momentum = on_momentum.data();
      tensor.scalars = on_rates.data();
      run_once(on, {.tensors = &tensor, .count = 1, .scalars = on_step.data()});

      double difference = 0, moved = 0;
      for (std::size_t e = 0; e < exact.size(); ++e) {
        difference += std::pow(value.read()[e] - exact[e], 2), moved += std::pow(exact[e] - start[e], 2);
        CHECK(std::abs(on_momentum.read()[e] - momentum[e]) <= 4 * 0x1p-24);  // two products and a sum of parts below 1
      }
      const double size = 0.25 * 0.2 * std::sqrt(static_cast<double>(std::max(matrix.rows, matrix.columns)));
      const double rounding = 4 * 0x1p-24 * std::sqrt(static_cast<double>(count));  // of the last lines
      CHECK(std::sqrt(difference) <= size * bound_of(matrix) + rounding);
      CHECK(std::sqrt(moved) > 20 * std::sqrt(difference));
    }
}
TEST_CASE("muon: the same bytes again and for any number of threads") { check_repeat(muon_cases()); }

// The columns of Q and the rows of R are orthonormal, so x = Q diag(s) R has the singular values s. Those of the result
// are the polynomial of each s / |s| alone, with the same vectors.
TEST_CASE("muon: singular vectors stay, and singular values follow the polynomial") {
  const std::vector<double> s = {5, 1, 0.3, 0.02};
  double norm = 0;
  for (const double one : s) norm += one * one;
  // reflections I - 2 v v^T / |v|^2
  const auto reflected = [](int n, int i, int j) {
    double square = 0;
    for (int k = 0; k < n; ++k) square += (k + 1.0) * (k + 1.0);
    return (i == j) - 2 * (i + 1.0) * (j + 1.0) / square;
  };
  const auto product = [&](const std::vector<double>& values) {
    std::vector<double> x;
    for (int i = 0; i < 6; ++i)
      for (int j = 0; j < 4; ++j) {
        double sum = 0;
        for (int k = 0; k < 4; ++k)
          sum += reflected(6, i, k) * values[static_cast<std::size_t>(k)] * reflected(4, k, j);
        x.push_back(sum);
      }
    return x;
  };
  std::vector<double> wanted;
  const MuonPolynomial p;
  for (const double one : s) {
    double value = one / std::sqrt(norm);
    for (int iteration = 0; iteration < muon_iterations; ++iteration)
      value = value * (p.x1 + p.x3 * value * value + p.x5 * std::pow(value, 4));
    wanted.push_back(value);
  }
  CHECK((wanted[0] > 0.67 && wanted[0] < 1.21));
  CHECK((wanted[3] > 0.67 && wanted[3] < 1.21));
  const std::vector<double> found = reference::orthogonalised(product(s), 6, 4), right = product(wanted);
  for (std::size_t e = 0; e < right.size(); ++e) CHECK(std::abs(found[e] - right[e]) < 1e-12);  // 4^5 roundings
}

TEST_CASE("muon: a gradient of zeros moves nothing, and the step does not depend on the size of the gradient") {
  for (const Column& on : columns()) {
    CAPTURE(on.name);
    const Placed<AdamwScalars> group(on, {{.learning_rate = 0.5}});
    const Placed<StepScalars> scalars(on, {{}});
    const auto step = [&](float size) {
      const Placed<float> value(on, {1, 1, 1, 1, 1, 1}), momentum(on, std::vector<float>(6, 0)),
          gradient(on, {size, 2 * size, -size, 0, size, size});
      const MuonTensor tensor{3, 2, value.data(), gradient.data(), momentum.data(), group.data()};
      const Muon call{.tensors = &tensor, .count = 1, .scalars = scalars.data()};
      run_once(on, call);
      return value.read();
    };
    CHECK(step(0) == std::vector<float>(6, 1));
    CHECK(step(0x1p-60F) == step(0x1p20F));
    CHECK(step(1) != std::vector<float>(6, 1));
  }
}

}  // namespace comera::kernels::test
