// The factorisations of matrix.h. LAPACK is column-major and sees a row-major matrix as its transpose, so each routine
// is called for the factorisation of the transpose.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "lib/core/error.h"
#include "lib/tt/matrix.h"

extern "C" {
void dsyevd_(const char* job, const char* part, const int* n, double* a, const int* lda, double* w, double* work,
             const int* lwork, int* iwork, const int* liwork, int* info);
void dsyevd_2stage_(const char* job, const char* part, const int* n, double* a, const int* lda, double* w, double* work,
                    const int* lwork, int* iwork, const int* liwork, int* info);
void dsyev_(const char* job, const char* part, const int* n, double* a, const int* lda, double* w, double* work,
            const int* lwork, int* info);
void dgesdd_(const char* job, const int* m, const int* n, double* a, const int* lda, double* s, double* u,
             const int* ldu, double* vt, const int* ldvt, double* work, const int* lwork, int* iwork, int* info);
void dgesvd_(const char* jobu, const char* jobvt, const int* m, const int* n, double* a, const int* lda, double* s,
             double* u, const int* ldu, double* vt, const int* ldvt, double* work, const int* lwork, int* info);
void dgelqf_(const int* m, const int* n, double* a, const int* lda, double* tau, double* work, const int* lwork,
             int* info);
void dorglq_(const int* m, const int* n, const int* k, double* a, const int* lda, const double* tau, double* work,
             const int* lwork, int* info);
void dgetrf_(const int* m, const int* n, double* a, const int* lda, int* pivots, int* info);
void dpotrf_(const char* part, const int* n, double* a, const int* lda, int* info);
void dgesv_(const int* n, const int* columns, double* a, const int* lda, int* pivots, double* b, const int* ldb,
            int* info);
}

namespace comera::tt {
namespace {

int narrow(std::int64_t size) { return static_cast<int>(size); }
int leading(std::int64_t size) { return narrow(std::max<std::int64_t>(size, 1)); }

// Calls f(work, lwork) twice: first to query the buffer size, then with a buffer of that size.
template <class F>
int with_workspace(F&& f) {
  double best = 0;
  const int ask = -1;
  if (const int info = f(&best, &ask)) return info;
  const int size = std::max(1, static_cast<int>(best));
  std::vector<double> work(static_cast<std::size_t>(size));
  return f(work.data(), &size);
}

// Eigenvectors replace the rows of `a`; values rise. Large problems without vectors use the two-stage reduction through
// a band matrix, which works with larger products.
int eigen_by_halves(const char* job, Matrix& a, std::vector<double>& values) {
  const auto solve = *job == 'N' && a.rows > 1024 ? dsyevd_2stage_ : dsyevd_;
  const int n = narrow(a.rows);
  int integers = 0;
  const int ask = -1;
  std::vector<int> iwork(1);
  return with_workspace([&](double* work, const int* lwork) {
    const int* liwork = *lwork < 0 ? &ask : &integers;
    int info = 0;
    solve(job, "U", &n, a.values.data(), &n, values.data(), work, lwork, iwork.data(), liwork, &info);
    if (*lwork < 0) iwork.resize(static_cast<std::size_t>(integers = std::max(1, iwork[0])));
    return info;
  });
}

int eigen_by_qr(Matrix& a, std::vector<double>& values) {
  const int n = narrow(a.rows);
  return with_workspace([&](double* work, const int* lwork) {
    int info = 0;
    dsyev_("V", "U", &n, a.values.data(), &n, values.data(), work, lwork, &info);
    return info;
  });
}

int svd_by_halves(Matrix& a, Svd& s) {
  const int m = narrow(a.columns), n = narrow(a.rows), k = std::min(m, n);
  std::vector<int> iwork(static_cast<std::size_t>(8 * k));
  return with_workspace([&](double* work, const int* lwork) {
    int info = 0;
    dgesdd_("S", &m, &n, a.values.data(), &m, s.values.data(), s.right.values.data(), &m, s.left.values.data(), &k,
            work, lwork, iwork.data(), &info);
    return info;
  });
}

int svd_by_qr(Matrix& a, Svd& s) {
  const int m = narrow(a.columns), n = narrow(a.rows), k = std::min(m, n);
  return with_workspace([&](double* work, const int* lwork) {
    int info = 0;
    dgesvd_("S", "S", &m, &n, a.values.data(), &m, s.values.data(), s.right.values.data(), &m, s.left.values.data(), &k,
            work, lwork, &info);
    return info;
  });
}

// Replaces `a` by the reflectors of a = l' q' in LAPACK's view.
std::vector<double> reflectors(Matrix& a) {
  const int m = narrow(a.columns), n = narrow(a.rows);
  if (a.values.empty()) return {};
  std::vector<double> tau(static_cast<std::size_t>(std::min(m, n)));
  const int info = with_workspace([&](double* work, const int* lwork) {
    int status = 0;
    dgelqf_(&m, &n, a.values.data(), &m, tau.data(), work, lwork, &status);
    return status;
  });
  COMERA_CHECK(info == 0);
  return tau;
}

// Turns reflectors of a matrix with at least as many rows as columns into its orthonormal columns.
void expand_reflectors(Matrix& a, const std::vector<double>& tau) {
  const int k = narrow(a.columns), n = narrow(a.rows);
  const int info = with_workspace([&](double* work, const int* lwork) {
    int status = 0;
    dorglq_(&k, &n, &k, a.values.data(), &k, tau.data(), work, lwork, &status);
    return status;
  });
  COMERA_CHECK(info == 0);
}

}  // namespace

SymmetricEigen symmetric_eigen(Matrix a) {
  COMERA_CHECK(a.rows == a.columns);
  SymmetricEigen e{std::vector<double>(static_cast<std::size_t>(a.rows)), a};
  if (a.rows == 0) return e;
  if (eigen_by_halves("V", e.vectors, e.values) != 0) {
    e.vectors = std::move(a);
    if (eigen_by_qr(e.vectors, e.values) != 0)
      fail_run("[eigen] a matrix of {0} x {0} did not converge; look for extreme values in it", e.vectors.rows);
  }
  std::reverse(e.values.begin(), e.values.end());
  for (std::int64_t i = 0, j = e.vectors.rows - 1; i < j; ++i, --j)
    std::swap_ranges(e.vectors.row(i), e.vectors.row(i) + e.vectors.columns, e.vectors.row(j));
  return e;
}

std::vector<double> symmetric_eigenvalues(Matrix a) {
  std::vector<double> values(static_cast<std::size_t>(a.rows));
  if (a.rows > 0 && eigen_by_halves("N", a, values) != 0)
    fail_run("[eigen] a matrix of {0} x {0} did not converge", a.rows);
  std::reverse(values.begin(), values.end());
  return values;
}

Svd svd(Matrix a) {
  const std::int64_t k = std::min(a.rows, a.columns);
  Svd s{Matrix(a.rows, k), std::vector<double>(static_cast<std::size_t>(k)), Matrix(k, a.columns)};
  if (k == 0) return s;
  Matrix copy = a;
  if (svd_by_halves(copy, s) != 0 && svd_by_qr(a, s) != 0)
    fail_run("[svd] a matrix of {} x {} did not converge; look for extreme values in it", a.rows, a.columns);
  return s;
}

Qr qr(const Matrix& a) {
  const std::int64_t k = std::min(a.rows, a.columns);
  Matrix work = a;
  const std::vector<double> tau = reflectors(work);
  Matrix r(k, a.columns);
  for (std::int64_t i = 0; i < k; ++i) std::copy(work.row(i) + i, work.row(i) + a.columns, r.row(i) + i);
  Matrix q = first_columns(work, k);
  if (k > 0) expand_reflectors(q, tau);
  return {std::move(q), std::move(r)};
}

Matrix orthonormal_columns(Matrix a) {
  COMERA_CHECK(a.rows >= a.columns);
  if (a.columns > 0) expand_reflectors(a, reflectors(a));
  return a;
}

std::optional<ColumnBasis> column_basis(const Matrix& a) {
  COMERA_CHECK(a.rows <= a.columns);
  // LU with partial pivoting of aᵀ, the matrix that LAPACK sees. Its pivots are the columns of `a`.
  Matrix factors = a;
  const int m = narrow(a.columns), n = narrow(a.rows), lda = leading(m);
  std::vector<int> pivots(static_cast<std::size_t>(n));
  int info = 0;
  if (n > 0) dgetrf_(&m, &n, factors.values.data(), &lda, pivots.data(), &info);
  if (info != 0) return std::nullopt;
  std::vector<std::int32_t> order(static_cast<std::size_t>(m));
  std::iota(order.begin(), order.end(), 0);
  for (int i = 0; i < n; ++i)
    std::swap(order[static_cast<std::size_t>(i)],
              order[static_cast<std::size_t>(pivots[static_cast<std::size_t>(i)] - 1)]);
  Matrix lower(a.rows, a.rows),
      rest(a.rows, a.columns - a.rows);  // the rows of aᵀ in pivot order are [L; L'] U: the coefficients are L⁻ᵀ L'ᵀ
  for (std::int64_t i = 0; i < a.rows; ++i) {
    lower(i, i) = 1;
    for (std::int64_t j = i + 1; j < a.rows; ++j) lower(j, i) = factors(i, j);
    std::copy(factors.row(i) + a.rows, factors.row(i) + a.columns, rest.row(i));
  }
  solve_lower_transposed(lower, rest);
  ColumnBasis basis{{order.begin(), order.begin() + n}, std::move(factors)};
  for (std::int64_t i = 0; i < a.rows; ++i) {
    double* row = basis.coefficients.row(i);
    for (std::int64_t j = 0; j < a.rows; ++j) row[order[static_cast<std::size_t>(j)]] = i == j ? 1 : 0;
    for (std::int64_t j = 0; j < rest.columns; ++j) row[order[static_cast<std::size_t>(a.rows + j)]] = rest(i, j);
  }
  return basis;
}

bool cholesky(Matrix& a) {
  COMERA_CHECK(a.rows == a.columns);
  const int n = narrow(a.rows), lda = leading(n);
  int info = 0;
  if (n > 0) dpotrf_("U", &n, a.values.data(), &lda, &info);
  if (info != 0) return false;
  for (std::int64_t i = 0; i < a.rows; ++i) std::fill(a.row(i) + i + 1, a.row(i) + a.columns, 0.0);
  return true;
}

Matrix damped_cholesky(Matrix a) {
  // Ten times the rounding of the largest possible eigenvalue, trace(a), is the smallest shift that surely has an
  // effect.
  const double size = trace(a);
  double shift = size > 0 ? 10 * std::numeric_limits<double>::epsilon() * size : 1;
  std::vector<double> diagonal(static_cast<std::size_t>(a.rows));
  for (std::int64_t i = 0; i < a.rows; ++i) diagonal[static_cast<std::size_t>(i)] = a(i, i);
  for (; !cholesky(a); shift *= 10) {
    if (!std::isfinite(shift)) fail_run("[solve] a matrix of {0} x {0} is not positive semidefinite", a.rows);
    // A failed factorisation leaves the numbers above the diagonal as they were.
    for (std::int64_t i = 0; i < a.rows; ++i) {
      for (std::int64_t j = 0; j < i; ++j) a(i, j) = a(j, i);
      a(i, i) = diagonal[static_cast<std::size_t>(i)] + shift;
    }
  }
  return a;
}

void solve_positive(Matrix a, Matrix& b) {
  const Matrix l = damped_cholesky(std::move(a));
  solve_lower(l, b);
  solve_lower_transposed(l, b);
}

bool solve_general(const Matrix& a, Matrix& b) {
  COMERA_CHECK(a.rows == a.columns && a.rows == b.rows);
  Matrix factors = transposed(a), right = transposed(b);
  const int n = narrow(a.rows), columns = narrow(b.columns), lda = leading(n);
  std::vector<int> pivots(static_cast<std::size_t>(n));
  int info = 0;
  dgesv_(&n, &columns, factors.values.data(), &lda, pivots.data(), right.values.data(), &lda, &info);
  if (info != 0) return false;
  b = transposed(right);
  return true;
}

}  // namespace comera::tt
