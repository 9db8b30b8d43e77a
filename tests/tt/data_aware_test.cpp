#include "lib/tt/data_aware.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "lib/core/error.h"
#include "tests/tt/random_matrix.h"

using namespace comera;
using namespace comera::tt;
using test::random_matrix;
using test::random_moment;

namespace {

const double eps = std::numeric_limits<double>::epsilon();

// The singular values of Lᵀ W with the Cholesky factor L: the result of whitening by an explicit factor.
std::vector<double> whitened_values(const Matrix& weight, const Matrix& moment) {
  Matrix l = moment;
  REQUIRE(cholesky(l));
  return svd(multiply_tn(l, weight)).values;
}

double tail(const std::vector<double>& values, std::int64_t rank) {
  double sum = 0;
  for (std::size_t i = static_cast<std::size_t>(rank); i < values.size(); ++i) sum += values[i] * values[i];
  return sum;
}

Matrix fitted(const WhitenedCurve& curve, std::int64_t rank) {
  const Pair pair = curve.pair(rank);
  return multiply(pair.left, pair.right);
}

// A moment of inputs with a Kronecker structure, outlier channels and noise. A TT of the inputs can use this structure.
Matrix layered_moment(std::int64_t first, std::int64_t second, unsigned seed) {
  const Matrix a = random_moment(first, 1e3, seed), b = random_moment(second, 1e2, seed + 1);
  Matrix s(first * second, first * second);
  for (std::int64_t i = 0; i < s.rows; ++i)
    for (std::int64_t j = 0; j < s.rows; ++j) s(i, j) = a(i / second, j / second) * b(i % second, j % second);
  return s;
}

}  // namespace

TEST_CASE("Eckart and Young in the norm of S: the loss at every rank is the tail, on both sides of in = out") {
  for (const auto& [in, out] : {std::pair{24, 10}, {10, 24}, {16, 16}, {1, 5}, {5, 1}, {1, 1}, {13, 7}}) {
    const Matrix w = random_matrix(in, out, 1), s = random_moment(in, 1e3, 2);
    const std::vector<double> values = whitened_values(w, s);
    const WhitenedCurve curve(w, s);
    REQUIRE(curve.largest_rank() == std::min(in, out));
    for (std::int64_t rank = 0; rank <= curve.largest_rank(); ++rank) {
      // Eigenvalues of the Gram matrix have an error of about n eps times the largest.
      const double margin = 100 * eps * tail(values, 0);
      CHECK(curve.losses()[static_cast<std::size_t>(rank)] == Approx(tail(values, rank)).epsilon(1e-10).margin(margin));
      CHECK(output_loss(w, fitted(curve, rank), s) == Approx(tail(values, rank)).epsilon(1e-9).margin(10 * margin));
    }
  }
}

TEST_CASE("no other matrix of that rank is better") {
  const Matrix w = random_matrix(20, 14, 3), s = random_moment(20, 1e4, 4);
  const WhitenedCurve curve(w, s);
  const Pair best = curve.pair(5);
  const double loss = output_loss(w, multiply(best.left, best.right), s);
  for (unsigned seed = 0; seed < 20; ++seed) {
    Pair other = best;
    const Matrix left = random_matrix(20, 5, 100 + seed), right = random_matrix(5, 14, 200 + seed);
    for (std::size_t i = 0; i < other.left.values.size(); ++i) other.left.values[i] += 1e-3 * left.values[i];
    for (std::size_t i = 0; i < other.right.values.size(); ++i) other.right.values[i] += 1e-3 * right.values[i];
    CHECK(output_loss(w, multiply(other.left, other.right), s) > loss);
  }
}

TEST_CASE("ill-conditioned and rank-deficient moments") {
  const Matrix w = random_matrix(30, 50, 5);
  const Matrix ill = random_moment(30, 1e8, 6);
  const WhitenedCurve curve(w, ill);
  const double norm = output_norm(w, ill);
  CHECK(curve.losses()[0] == Approx(norm).epsilon(1e-12));
  for (const std::int64_t rank : {3, 10, 20})
    CHECK(output_loss(w, fitted(curve, rank), ill) ==
          Approx(tail(whitened_values(w, ill), rank)).epsilon(1e-5).margin(1e-13 * norm));

  const Matrix flat = gram(random_matrix(6, 30, 7));  // six tokens
  for (const Matrix& weight : {w, random_matrix(30, 20, 8)}) {
    const WhitenedCurve few(weight, flat);
    const double all = output_norm(weight, flat);
    CHECK(few.losses()[6] <= 1e-12 * all);
    CHECK(output_loss(weight, fitted(few, 6), flat) <= 1e-12 * all);
    CHECK(output_loss(weight, fitted(few, 15), flat) <= 1e-12 * all);
    for (const double value : few.pair(15).left.values) REQUIRE(std::isfinite(value));
  }
  const WhitenedCurve nothing(w, Matrix(30, 30));
  CHECK(nothing.losses()[0] == 0);
  CHECK(nothing.pair(4).left.columns == 4);
  CHECK(output_error(w, fitted(nothing, 4), Matrix(30, 30)) == 0);
}

TEST_CASE("losses never rise with the rank") {
  const WhitenedCurve curve(random_matrix(40, 60, 9), random_moment(40, 1e12, 10));
  for (std::size_t r = 1; r < curve.losses().size(); ++r) CHECK(curve.losses()[r] <= curve.losses()[r - 1]);
  CHECK(curve.losses().back() == 0);
}

TEST_CASE("shrinkage and damping match their definition") {
  const Matrix s = random_moment(5, 10, 11), t = shrunk(s, 0.25, 0.01);
  const double mean = trace(s) / 5;
  CHECK(t(1, 2) == Approx(0.75 * s(1, 2)));
  CHECK(t(3, 3) == Approx(s(3, 3) + 0.01 * mean));
  CHECK(shrunk(s, 1)(0, 4) == 0);
  CHECK(shrunk(s, 0).values == s.values);
}

TEST_CASE("the corrected target gives the least squares of the dense outputs on the compressed inputs") {
  const Matrix x = random_matrix(200, 12, 12);
  Matrix seen = x;
  const Matrix noise = random_matrix(200, 12, 13);
  for (std::size_t i = 0; i < seen.values.size(); ++i) seen.values[i] += 0.3 * noise.values[i];
  const Matrix w = random_matrix(12, 7, 14), moment = gram(seen);
  // The residual stream that the layer adds to has changed too, in part in the same direction as its inputs.
  Matrix outputs = multiply(x, w);
  add(outputs, multiply(difference(x, seen), random_matrix(12, 7, 16)));
  const Matrix target = corrected_target(w, {moment, multiply_tn(seen, outputs)}, 0);
  // Normal equations: the residual is orthogonal to the inputs.
  const Matrix left = difference(outputs, multiply(seen, target));
  CHECK(squared_norm(multiply_tn(seen, left)) <= 1e-20 * squared_norm(multiply_tn(seen, outputs)));
  // The loss of any V differs from the loss in the norm of the new moment by a constant.
  const double constant = squared_norm(left);
  const Matrix v = random_matrix(12, 7, 15);
  CHECK(squared_norm(difference(outputs, multiply(seen, v))) ==
        Approx(constant + output_loss(target, v, moment)).epsilon(1e-10));
  CHECK(relative_error(w, corrected_target(w, {gram(x), multiply(gram(x), w)}, 1e-6)) <= 1e-12);
}

TEST_CASE("the best target reduces the loss on held-out inputs") {
  const Matrix w = random_matrix(12, 7, 16), spread = random_matrix(12, 7, 17);
  struct Inputs {
    Matrix seen, wanted, moment, products;
    Followed sums() const { return {moment, products}; }
    double left(const Matrix& v) const { return squared_norm(difference(wanted, multiply(seen, v))); }
  };
  // The residual stream changes in the direction opposite to the inputs.
  const auto inputs = [&](std::int64_t tokens, double noise, unsigned seed) {
    const Matrix x = random_matrix(tokens, 12, seed), other = random_matrix(tokens, 12, seed + 1);
    Matrix seen = x;
    for (std::int64_t t = 0; t < tokens; ++t)
      for (std::int64_t i = 0; i < 12; ++i) seen(t, i) += 0.4 * x(t, (i + 1) % 12) + noise * other(t, i);
    Matrix wanted = multiply(x, w);
    add(wanted, multiply(difference(x, seen), spread));
    return Inputs{seen, wanted, gram(seen), multiply_tn(seen, wanted)};
  };
  const Inputs fit = inputs(400, 0.2, 18), held = inputs(150, 0.2, 20);
  const Matrix v = random_matrix(12, 7, 22);
  CHECK(fit.left(v) == Approx(squared_norm(fit.wanted) + followed_loss(v, fit.sums())).epsilon(1e-12));
  CHECK(held.left(best_target(w, fit.sums(), held.sums())) < 0.3 * held.left(w));
  // Three tokens contain no information about twelve inputs. Their correction is harmful if nothing changed, so the
  // weight stays as it is.
  const Inputs few = inputs(3, 3, 24);
  const Matrix x = random_matrix(150, 12, 26), same = gram(x), still = multiply(same, w);
  CHECK(best_target(w, few.sums(), {same, still}).values == w.values);
}

TEST_CASE("order 3 recovers a weight of its form, and sweeps never increase the loss") {
  Chain truth;
  truth.layout = tt_layout({6, 4}, {15}, {1, 3, 5, 1});
  for (std::size_t k = 0; k < 3; ++k)
    truth.cores.push_back(random_matrix(1, product(truth.layout.core_shape(k)), 60 + static_cast<unsigned>(k)).values);
  const Matrix w = expand(truth);
  Matrix s = random_moment(24, 100, 16);
  std::vector<double> scale(24);
  for (std::int64_t i = 0; i < 24;
       ++i) {  // makes the energies fall with the index, so that the fit uses the order of the truth
    double norm = 0;
    for (std::int64_t o = 0; o < 15; ++o) norm += w(i, o) * w(i, o);
    scale[static_cast<std::size_t>(i)] = std::sqrt((2 - static_cast<double>(i) / 24) / (norm * s(i, i)));
  }
  for (std::int64_t i = 0; i < 24; ++i)
    for (std::int64_t j = 0; j < 24; ++j)
      s(i, j) *= scale[static_cast<std::size_t>(i)] * scale[static_cast<std::size_t>(j)];
  const Chain found = fit_order3(w, s, {6, 4, 3, 5}, 30);
  CHECK(std::is_sorted(found.order.begin(), found.order.end()));
  CHECK(output_error(w, expand(found), s) <= 1e-4);
  const Matrix any = random_matrix(24, 15, 18);
  double before = std::numeric_limits<double>::infinity();
  for (int sweeps = 0; sweeps < 5; ++sweeps) {
    const Chain fit = fit_order3(any, s, {6, 4, 4, 6}, sweeps);
    check_chain(fit, "w");
    const double loss = output_loss(any, expand(fit), s);
    CHECK(loss <= before * (1 + 1e-10));
    before = loss;
  }
}

TEST_CASE("order 3 with the whole first mode is the whitened SVD") {
  for (const std::int64_t out : {9, 40}) {
    const Matrix w = random_matrix(24, out, 19), s = random_moment(24, 1e3, 20);
    const Chain fit = fit_order3(w, s, {6, 4, 6, 5}, 1);
    CHECK(output_loss(w, expand(fit), s) == Approx(WhitenedCurve(w, s).losses()[5]).epsilon(1e-8));
  }
}

TEST_CASE("the best candidate keeps the budget, beats or equals order 2 and is judged on the held-out moment") {
  const Matrix s = layered_moment(12, 8, 21), held = layered_moment(12, 8, 21);
  Matrix w = random_matrix(96, 96, 23);
  bool chose_order3 = false;
  for (const std::int64_t bytes : {96 * 96, 96 * 96 / 2, 96 * 96 * 2}) {
    Search search;
    search.bytes = bytes;
    const Candidate best = best_candidate(w, s, held, search);
    check_chain(best.chain, "w");
    CHECK(stored_bytes(best.chain, {1, 4}) <= bytes);
    CHECK(best.held_error == Approx(output_error(w, expand(best.chain), held)));
    const WhitenedCurve curve(w, s);
    CHECK(best_candidate(w, s, held, search, &curve).chain.cores == best.chain.cores);
    search.order3 = false;
    const Candidate pair = best_candidate(w, s, held, search);
    CHECK(best.held_error <= pair.held_error);
    CHECK(pair.chain.gauge.size() == static_cast<std::size_t>(pair.chain.layout.ranks[1]));
    chose_order3 = chose_order3 || best.chain.layout.inputs() == 2;
  }
  CHECK(chose_order3);
}

TEST_CASE("budgets: largest_pair_rank is the largest rank that fits") {
  const Storage plain{{1, 2}, false}, gauged{{1, 2}, true};
  CHECK(pair_bytes(384, 1536, 10, plain) == 10 * (384 + 1536) * 2);
  CHECK(pair_bytes(384, 1536, 10, gauged) == (10 * (384 + 1536) - 100) * 2 + 40);
  for (const Storage& storage : {plain, gauged})
    for (const std::int64_t bytes : {3840, 30000, 300000, 1179648}) {
      const std::int64_t rank = largest_pair_rank(384, 1536, bytes, storage);
      CHECK(pair_bytes(384, 1536, rank, storage) <= bytes);
      CHECK((rank == 384 || pair_bytes(384, 1536, rank + 1, storage) > bytes));
    }
  CHECK(largest_pair_rank(384, 1536, 300000, gauged, 8) % 8 == 0);
  CHECK(largest_pair_rank(384, 1536, 10, plain) == 0);
  const Chain chain = fix_gauge(fit_order3(random_matrix(24, 15, 1), random_moment(24, 10, 2), {6, 4, 3, 5}));
  CHECK(order3_bytes(15, {6, 4, 3, 5}, gauged) == stored_bytes(chain, {1, 2}));
  Search search;
  search.bytes = 10;
  CHECK_THROWS_AS(best_candidate(random_matrix(24, 15, 1), random_moment(24, 10, 2), random_moment(24, 10, 2), search),
                  InputError);
}
