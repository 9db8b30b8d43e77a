#include "lib/tt/matrix.h"

#include <cblas.h>

#include <algorithm>
#include <cmath>

#include "kernels/cpu_backend.h"
#include "kernels/thread_pool.h"
#include "kernels/types.h"
#include "lib/core/error.h"

namespace comera::tt {
namespace {

// Linking the CPU backend links its start-up code, which tells OpenBLAS the processor and to start no threads. Nothing of OpenBLAS may be called
// here: it may not have started yet.
const bool backend_is_linked = kernels::cpu_supports("v3");

thread_local kernels::ThreadPool* current_pool = nullptr;

// The side of a tile of a large product. Copies of the operands that BLAS makes per tile cost about a hundredth of its arithmetic.
constexpr std::int64_t tile_side = 512;

int narrow(std::int64_t size) { return static_cast<int>(size); }

struct Operand {
  const double* data;
  std::int64_t stride;
  bool transposed;

  const double* at(std::int64_t row, std::int64_t column) const { return transposed ? data + column * stride + row : data + row * stride + column; }
};

Operand plain(const Matrix& a) { return {a.values.data(), a.columns, false}; }
Operand turned(const Matrix& a) { return {a.values.data(), a.columns, true}; }

struct Tiles {
  std::int64_t rows, columns, down, across;

  Tiles(std::int64_t rows, std::int64_t columns)
      : rows(rows), columns(columns), down((rows + tile_side - 1) / tile_side), across((columns + tile_side - 1) / tile_side) {}
};

struct Range {
  std::int64_t begin, size;
};

Range part(std::int64_t size, std::int64_t parts, std::int64_t index) {
  const std::int64_t begin = size * index / parts;
  return {begin, size * (index + 1) / parts - begin};
}

template <class F>
void for_each_tile(std::int64_t tiles, F&& f) {
  kernels::Context context;
  context.stream = current_pool;
  kernels::parallel_for(context, tiles, f);
}

// c [m x n] = a [m x k] b [k x n]; with `upper` only the tiles that touch the upper triangle.
void product(const Operand& a, const Operand& b, std::int64_t inner, Matrix& c, bool upper = false) {
  if (c.values.empty()) return;
  if (inner == 0) return std::fill(c.values.begin(), c.values.end(), 0.0);
  const Tiles tiles(c.rows, c.columns);
  for_each_tile(tiles.down * tiles.across, [&](std::int64_t tile) {
    const std::int64_t i = tile / tiles.across, j = tile % tiles.across;
    if (upper && j < i) return;
    const Range rows = part(c.rows, tiles.down, i), columns = part(c.columns, tiles.across, j);
    cblas_dgemm(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans, b.transposed ? CblasTrans : CblasNoTrans, narrow(rows.size),
                narrow(columns.size), narrow(inner), 1.0, a.at(rows.begin, 0), narrow(a.stride), b.at(0, columns.begin), narrow(b.stride), 0.0,
                c.row(rows.begin) + columns.begin, narrow(c.columns));
  });
}

void mirror(Matrix& a) {  // the upper triangle into the lower
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < i; ++j) a(i, j) = a(j, i);
}

}  // namespace

Matrix::Matrix(std::int64_t rows, std::int64_t columns, std::vector<double> values) : rows(rows), columns(columns), values(std::move(values)) {
  COMERA_CHECK(static_cast<std::int64_t>(this->values.size()) == rows * columns);
}

UsePool::UsePool(kernels::ThreadPool& pool) : before_(current_pool) { current_pool = &pool; }
UsePool::~UsePool() { current_pool = before_; }

void check_finite(const Matrix& a, const std::string& what) {
  for (std::size_t i = 0; i < a.values.size(); ++i)
    if (!std::isfinite(a.values[i]))
      fail_input("{}: the value at row {}, column {} is {}, which is not finite; mend or leave out this tensor", what,
                 static_cast<std::int64_t>(i) / a.columns, static_cast<std::int64_t>(i) % a.columns, a.values[i]);
}

Matrix identity(std::int64_t size) {
  Matrix a(size, size);
  for (std::int64_t i = 0; i < size; ++i) a(i, i) = 1;
  return a;
}

Matrix transposed(const Matrix& a) {
  constexpr std::int64_t block = 32;
  Matrix b(a.columns, a.rows);
  for (std::int64_t ii = 0; ii < a.rows; ii += block)
    for (std::int64_t jj = 0; jj < a.columns; jj += block)
      for (std::int64_t i = ii; i < std::min(ii + block, a.rows); ++i)
        for (std::int64_t j = jj; j < std::min(jj + block, a.columns); ++j) b(j, i) = a(i, j);
  return b;
}

Matrix folded(std::vector<double> values, std::int64_t columns) {
  const std::int64_t rows = columns > 0 ? static_cast<std::int64_t>(values.size()) / columns : 0;
  return Matrix(rows, columns, std::move(values));
}

Matrix reshaped(Matrix a, std::int64_t rows, std::int64_t columns) { return Matrix(rows, columns, std::move(a.values)); }

Matrix first_rows(const Matrix& a, std::int64_t count) {
  return Matrix(count, a.columns, std::vector<double>(a.values.begin(), a.values.begin() + count * a.columns));
}

Matrix first_columns(const Matrix& a, std::int64_t count) {
  Matrix b(a.rows, count);
  for (std::int64_t i = 0; i < a.rows; ++i) std::copy_n(a.row(i), count, b.row(i));
  return b;
}

Matrix difference(const Matrix& a, const Matrix& b) {
  COMERA_CHECK(a.rows == b.rows && a.columns == b.columns);
  Matrix c = a;
  for (std::size_t i = 0; i < c.values.size(); ++i) c.values[i] -= b.values[i];
  return c;
}

Matrix regrouped(const Matrix& a, std::int64_t x, std::int64_t y, std::int64_t u, std::int64_t v) {
  Matrix b(x * u, y * v);
  for (std::int64_t i = 0; i < x; ++i)
    for (std::int64_t j = 0; j < y; ++j)
      for (std::int64_t k = 0; k < u; ++k) std::copy_n(a.row(i * y + j) + k * v, v, b.row(i * u + k) + j * v);
  return b;
}

Matrix multiply(const Matrix& a, const Matrix& b) {
  COMERA_CHECK(a.columns == b.rows);
  Matrix c(a.rows, b.columns);
  product(plain(a), plain(b), a.columns, c);
  return c;
}

Matrix multiply_tn(const Matrix& a, const Matrix& b) {
  COMERA_CHECK(a.rows == b.rows);
  Matrix c(a.columns, b.columns);
  product(turned(a), plain(b), a.rows, c);
  return c;
}

Matrix multiply_nt(const Matrix& a, const Matrix& b) {
  COMERA_CHECK(a.columns == b.columns);
  Matrix c(a.rows, b.rows);
  product(plain(a), turned(b), a.columns, c);
  return c;
}

Matrix gram(const Matrix& a) {
  Matrix c(a.columns, a.columns);
  product(turned(a), plain(a), a.rows, c, true);
  mirror(c);
  return c;
}

Matrix gram_of_rows(const Matrix& a) {
  Matrix c(a.rows, a.rows);
  product(plain(a), turned(a), a.columns, c, true);
  mirror(c);
  return c;
}

double dot(const Matrix& a, const Matrix& b) {
  COMERA_CHECK(a.rows == b.rows && a.columns == b.columns);
  double sum = 0;
  for (std::int64_t i = 0; i < a.rows; ++i) sum += cblas_ddot(narrow(a.columns), a.row(i), 1, b.row(i), 1);
  return sum;
}

double squared_norm(const Matrix& a) { return dot(a, a); }

double trace(const Matrix& a) {
  double sum = 0;
  for (std::int64_t i = 0; i < std::min(a.rows, a.columns); ++i) sum += a(i, i);
  return sum;
}

void symmetrize(Matrix& a) {
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < i; ++j) a(i, j) = a(j, i) = 0.5 * (a(i, j) + a(j, i));
}

}  // namespace comera::tt
