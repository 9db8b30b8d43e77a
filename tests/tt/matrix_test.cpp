#include "lib/tt/matrix.h"

#include <catch2/catch.hpp>
#include <limits>

#include "kernels/host/thread_pool.h"
#include "lib/core/error.h"
#include "lib/tt/chain.h"
#include "tests/tt/random_matrix.h"

using namespace comera;
using namespace comera::tt;
using test::random_matrix;

namespace {

const double eps = std::numeric_limits<double>::epsilon();

Matrix scaled_rows(Matrix a, const std::vector<double>& factors) {
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.columns; ++j) a(i, j) *= factors[static_cast<std::size_t>(i)];
  return a;
}

// Error bound of backward stable methods: a low power of the dimension times eps (Higham 2002, theorem 19.4; 10 n eps
// is used here).
double bound(std::int64_t n) { return 10 * static_cast<double>(n) * eps; }

}  // namespace

TEST_CASE("products of every transposition are correct, with the same bytes for any number of threads") {
  const Matrix a = random_matrix(1100, 37, 1), b = random_matrix(37, 700, 2);
  const Matrix c = multiply(a, b);
  for (const auto& [i, j] : {std::pair{0, 0}, {511, 512}, {1099, 699}, {513, 349}}) {
    double sum = 0, size = 0;
    for (std::int64_t k = 0; k < 37; ++k) sum += a(i, k) * b(k, j), size += std::abs(a(i, k) * b(k, j));
    CHECK(std::abs(c(i, j) - sum) <= 2 * 37 * eps * size);
  }
  CHECK(relative_error(c, multiply_tn(transposed(a), b)) <= 37 * eps);
  CHECK(relative_error(c, multiply_nt(a, transposed(b))) <= 37 * eps);
  kernels::ThreadPool pool(2);
  const UsePool use(pool);
  CHECK(multiply(a, b).values == c.values);
  CHECK(gram(b).values == gram(b).values);
  CHECK(relative_error(multiply_tn(b, b), gram(b)) <= 37 * eps);
}

TEST_CASE("an inner size of 0 gives zeros, empty matrices pass through") {
  const Matrix c = multiply(Matrix(3, 0), Matrix(0, 2));
  CHECK(c.rows == 3);
  CHECK(c.columns == 2);
  CHECK(squared_norm(c) == 0);
  CHECK(symmetric_eigen(Matrix(0, 0)).values.empty());
}

TEST_CASE("eigenvalues fall and their vectors rebuild the matrix") {
  for (const std::int64_t n : {1, 2, 17, 130}) {
    const Matrix a = gram(random_matrix(n + 3, n, 5));
    const SymmetricEigen e = symmetric_eigen(a);
    CHECK(std::is_sorted(e.values.rbegin(), e.values.rend()));
    const std::vector<double> alone = symmetric_eigenvalues(a);
    for (std::size_t i = 0; i < alone.size(); ++i) CHECK(std::abs(alone[i] - e.values[i]) <= bound(n) * e.values[0]);
    CHECK(relative_error(a, multiply_tn(e.vectors, scaled_rows(e.vectors, e.values))) <= bound(n));
    CHECK(relative_error(identity(n), multiply_nt(e.vectors, e.vectors)) <= bound(n));
  }
}

TEST_CASE("the SVD and QR of tall, wide and square matrices rebuild them") {
  for (const auto& [m, n] : {std::pair{1, 1}, {1, 7}, {7, 1}, {40, 13}, {13, 40}, {31, 31}}) {
    const Matrix a = random_matrix(m, n, 7);
    const Svd s = svd(a);
    CHECK(relative_error(a, multiply(s.left, scaled_rows(s.right, s.values))) <= bound(std::max(m, n)));
    CHECK(relative_error(identity(s.left.columns), gram(s.left)) <= bound(m));
    CHECK(std::is_sorted(s.values.rbegin(), s.values.rend()));
    const Qr f = qr(a);
    CHECK(relative_error(a, multiply(f.q, f.r)) <= bound(std::max(m, n)));
    CHECK(relative_error(identity(f.q.columns), gram(f.q)) <= bound(m));
    for (std::int64_t i = 0; i < f.r.rows; ++i)
      for (std::int64_t j = 0; j < std::min(i, f.r.columns); ++j) CHECK(f.r(i, j) == 0);
  }
}

TEST_CASE("orthonormal columns of a matrix with dependent columns are orthonormal") {
  Matrix a = random_matrix(9, 4, 3);
  for (std::int64_t i = 0; i < 9; ++i) a(i, 2) = a(i, 0), a(i, 3) = 0;
  CHECK(relative_error(identity(4), gram(orthonormal_columns(a))) <= bound(9));
}

TEST_CASE("positive systems are solved, a semidefinite one within its range") {
  const Matrix a = test::random_moment(20, 100, 4), x = random_matrix(20, 3, 6);
  Matrix b = multiply(a, x);
  solve_positive(a, b);
  CHECK(relative_error(x, b) <= 100 * bound(20));  // the condition of a
  const Matrix root = random_matrix(2, 20, 8), flat = gram(root);
  Matrix image = multiply(flat, x);
  const Matrix wanted = image;
  solve_positive(flat, image);
  CHECK(relative_error(wanted, multiply(flat, image)) <= 1e-10);
  Matrix zero = x;
  solve_positive(Matrix(20, 20), zero);
  CHECK(zero.values == x.values);
}

TEST_CASE("general systems are solved or reported as singular") {
  const Matrix a = random_matrix(12, 12, 9), x = random_matrix(12, 2, 10);
  Matrix b = multiply(a, x);
  REQUIRE(solve_general(a, b));
  CHECK(relative_error(x, b) <= 1e4 * bound(12));
  CHECK_FALSE(solve_general(Matrix(12, 12), b));
}

TEST_CASE("a number that is not finite is an error with its position") {
  Matrix a(3, 4);
  a(2, 1) = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_WITH(check_finite(a, "layer.0.weight"),
                    Catch::Contains("layer.0.weight: the value at row 2, column 1 is nan"));
  a(2, 1) = 1;
  CHECK_NOTHROW(check_finite(a, "layer.0.weight"));
}

TEST_CASE("sums of float products over batches: exactly symmetric, near the products of all rows, for any threads") {
  for (const std::int64_t columns : {1, 7, 300, 700}) {
    const FloatMatrix a = to_float(random_matrix(40, columns, 81)), b = to_float(random_matrix(25, columns, 82)),
                      right = to_float(random_matrix(40, 310, 83)), more = to_float(random_matrix(25, 310, 84));
    const auto sums = [&] {
      std::pair<Matrix, Matrix> both;
      for (const auto& [x, y] : {std::pair(&a, &right), std::pair(&b, &more)}) {
        add_upper_gram(both.first, *x);
        add_product_tn(both.second, *x, *y);
      }
      add_upper_gram(both.first, FloatMatrix(0, columns));
      mirror_upper(both.first);
      return both;
    };
    const auto [sum, product] = sums();
    Matrix all(65, columns), beside(65, 310);
    std::copy(a.values.begin(), a.values.end(), all.values.begin());
    std::copy(b.values.begin(), b.values.end(), all.row(40));
    std::copy(right.values.begin(), right.values.end(), beside.values.begin());
    std::copy(more.values.begin(), more.values.end(), beside.row(40));
    CHECK(relative_error(gram(all), sum) <= 65 * std::numeric_limits<float>::epsilon());
    CHECK(relative_error(multiply_tn(all, beside), product) <= 65 * std::numeric_limits<float>::epsilon());
    for (std::int64_t i = 0; i < columns; ++i)
      for (std::int64_t j = 0; j < i; ++j) CHECK(sum(i, j) == sum(j, i));
    kernels::ThreadPool pool(3);
    const UsePool use(pool);
    const auto threaded = sums();
    CHECK(threaded.first.values == sum.values);
    CHECK(threaded.second.values == product.values);
  }
}
