// Dense linear algebra in double for compressing weights: row-major matrices on BLAS and LAPACK. Results are the same
// bytes for any number of threads, because products are split by shape and everything else runs on the calling thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/tt/parallel.h"

namespace comera::tt {

template <class T>
struct MatrixOf {
  std::int64_t rows = 0, columns = 0;
  std::vector<T> values;  // row major

  MatrixOf() = default;
  MatrixOf(std::int64_t rows, std::int64_t columns)
      : rows(rows), columns(columns), values(static_cast<std::size_t>(rows * columns)) {}
  MatrixOf(std::int64_t rows, std::int64_t columns, std::vector<T> values);  // requires rows * columns values

  T* row(std::int64_t i) { return values.data() + i * columns; }
  const T* row(std::int64_t i) const { return values.data() + i * columns; }
  T& operator()(std::int64_t i, std::int64_t j) { return values[static_cast<std::size_t>(i * columns + j)]; }
  T operator()(std::int64_t i, std::int64_t j) const { return values[static_cast<std::size_t>(i * columns + j)]; }
};
using Matrix = MatrixOf<double>;
using FloatMatrix = MatrixOf<float>;  // for searching a space, which is then evaluated in double

// InputError "WHAT: ... is not finite" with the position.
void check_finite(const Matrix& a, const std::string& what);

template <class T = double>
MatrixOf<T> identity(std::int64_t size);
template <class T>
MatrixOf<T> transposed(const MatrixOf<T>& a);
Matrix folded(std::vector<double> values, std::int64_t columns);  // values.size() / columns rows
template <class T>
MatrixOf<T> reshaped(MatrixOf<T> a, std::int64_t rows, std::int64_t columns) {
  return MatrixOf<T>(rows, columns, std::move(a.values));
}
template <class T>
MatrixOf<T> first_rows(const MatrixOf<T>& a, std::int64_t count);
Matrix first_columns(const Matrix& a, std::int64_t count);
// [(x y) x (u v)] -> [(x u) x (y v)]: row indices split as x y, column indices as u v; exchanges y and u.
template <class T>
MatrixOf<T> regrouped(const MatrixOf<T>& a, std::int64_t x, std::int64_t y, std::int64_t u, std::int64_t v);
Matrix difference(const Matrix& a, const Matrix& b);
void subtract_from(const Matrix& a, Matrix& b);  // b <- a - b
void add(Matrix& a, const Matrix& b);            // a <- a + b

Matrix multiply(const Matrix& a, const Matrix& b);  // a b
// a b with every element summed in double in one order, so that the result is independent of the BLAS.
FloatMatrix multiply(const FloatMatrix& a, const FloatMatrix& b);
Matrix multiply_tn(const Matrix& a, const Matrix& b);       // aᵀ b
Matrix multiply_nt(const Matrix& a, const Matrix& b);       // a bᵀ
Matrix gram(const Matrix& a);                               // aᵀ a, exactly symmetric
Matrix gram_of_rows(const Matrix& a);                       // a aᵀ, exactly symmetric
double squared_norm(const Matrix& a);                       // Frobenius
double squared_distance(const Matrix& a, const Matrix& b);  // squared_norm(difference(a, b))
double dot(const Matrix& a, const Matrix& b);               // sum of a_ij b_ij
// dot(a, multiply(b, c)), a few rows of the product at a time.
double dot_of_product(const Matrix& a, const Matrix& b, const Matrix& c);
double trace(const Matrix& a);
void symmetrize(Matrix& a);  // (a + aᵀ) / 2

// sum += aᵀ a, on and above the diagonal, and sum += aᵀ b. One batch is computed in float, the sum is in double. An
// empty sum is set to it. mirror_upper() copies the upper triangle of a finished sum into the lower one.
void add_upper_gram(Matrix& sum, const FloatMatrix& a);
void mirror_upper(Matrix& a);
void add_product_tn(Matrix& sum, const FloatMatrix& a, const FloatMatrix& b);

FloatMatrix to_float(const Matrix& a, double scale = 1);
Matrix to_double(const FloatMatrix& a);
void multiply_into(float alpha, const FloatMatrix& a, const FloatMatrix& b, float beta,
                   FloatMatrix& c);  // c <- alpha a b + beta c
void multiply_nt_into(float alpha, const FloatMatrix& a, const FloatMatrix& b, float beta,
                      FloatMatrix& c);  // c <- alpha a bᵀ + beta c
FloatMatrix gram(const FloatMatrix& a);
FloatMatrix gram_of_rows(const FloatMatrix& a);

// a = vectorsᵀ diag(values) vectors of a symmetric a: row i of `vectors` belongs to values[i], the largest first.
struct SymmetricEigen {
  std::vector<double> values;
  Matrix vectors;
};
SymmetricEigen symmetric_eigen(Matrix a);
std::vector<double> symmetric_eigenvalues(Matrix a);  // the largest first, in a quarter of the time

// a [m x n] = left diag(values) right with k = min(m, n) terms, the largest first: left [m x k], right [k x n].
struct Svd {
  Matrix left;
  std::vector<double> values;
  Matrix right;
};
Svd svd(Matrix a);

// a [m x n] = q r with q [m x k] orthonormal columns, r [k x n], k = min(m, n).
struct Qr {
  Matrix q, r;
};
Qr qr(const Matrix& a);
Matrix orthonormal_columns(
    Matrix a);  // only q; rows >= columns. A linearly dependent column is replaced by an arbitrary orthogonal one

// Columns of a [m x n], m <= n, that form a basis of the other columns: a = a[:, columns] coefficients. coefficients [m
// x n] has entries rarely far above 1 and an identity block at the columns. Nothing if rows are linearly dependent.
struct ColumnBasis {
  std::vector<std::int32_t> columns;
  Matrix coefficients;
};
std::optional<ColumnBasis> column_basis(const Matrix& a);

// The lower triangle l with l lᵀ = a, zeros above. False if a is not numerically positive definite; then the numbers
// above the diagonal are unchanged.
bool cholesky(Matrix& a);
void solve_lower(const Matrix& l, Matrix& b);             // b <- l⁻¹ b
void solve_lower_transposed(const Matrix& l, Matrix& b);  // b <- l⁻ᵀ b
// The Cholesky factor of a symmetric positive semidefinite a. A growing multiple of the identity is added until a is
// numerically definite. The identity itself if a is zero.
Matrix damped_cholesky(Matrix a);
void solve_positive(Matrix a, Matrix& b);  // b <- a⁻¹ b by damped_cholesky
// The inverse of a lower triangle. Of more than 2,048 rows it takes no second matrix.
Matrix inverse_lower(Matrix l);
// b <- a⁻¹ b for a square a by LU with partial pivoting. False if a is singular.
bool solve_general(const Matrix& a, Matrix& b);

}  // namespace comera::tt
