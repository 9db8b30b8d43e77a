#include "lib/tt/matrix.h"

#include <cblas.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "kernels/host/cpu_backend.h"
#include "lib/core/error.h"
#include "lib/core/terminal/stop.h"

namespace comera::tt {
namespace {

// Links the CPU backend, whose start-up code sets the processor type of OpenBLAS and disables its threads. No OpenBLAS
// function may be called here, because OpenBLAS may not be initialised yet.
const bool backend_is_linked = kernels::cpu_supports("v3");

// The side of a tile of a large product. The copies of operands that BLAS makes per tile cost about one hundredth of
// the arithmetic.
constexpr std::int64_t tile_side = 512;

int narrow(std::int64_t size) { return static_cast<int>(size); }

template <class T>
struct Operand {
  const T* data;
  std::int64_t stride;
  bool transposed;

  const T* at(std::int64_t row, std::int64_t column) const {
    return transposed ? data + column * stride + row : data + row * stride + column;
  }
  CBLAS_TRANSPOSE order() const { return transposed ? CblasTrans : CblasNoTrans; }
};

template <class T>
Operand<T> plain(const MatrixOf<T>& a) {
  return {a.values.data(), a.columns, false};
}
template <class T>
Operand<T> turned(const MatrixOf<T>& a) {
  return {a.values.data(), a.columns, true};
}

struct Tiles {
  std::int64_t rows, columns, down, across;

  Tiles(std::int64_t rows, std::int64_t columns)
      : rows(rows), columns(columns), down(parts(rows)), across(parts(columns)) {}

 private:
  // A small product needs enough parts for all threads. Parts of a large product must be large enough for the copies
  // that BLAS makes.
  std::int64_t parts(std::int64_t size) const {
    const std::int64_t side = rows * columns > 9 * tile_side * tile_side ? tile_side : tile_side / 2;
    return (size + side - 1) / side;
  }
};

struct Range {
  std::int64_t begin, size;
};

Range part(std::int64_t size, std::int64_t parts, std::int64_t index) {
  const std::int64_t begin = size * index / parts;
  return {begin, size * (index + 1) / parts - begin};
}

struct Tile {
  Range rows, columns;
};

void tile_product(const Operand<double>& a, const Operand<double>& b, std::int64_t inner, double alpha, double beta,
                  Matrix& c, const Tile& tile) {
  cblas_dgemm(CblasRowMajor, a.order(), b.order(), narrow(tile.rows.size), narrow(tile.columns.size), narrow(inner),
              alpha, a.at(tile.rows.begin, 0), narrow(a.stride), b.at(0, tile.columns.begin), narrow(b.stride), beta,
              c.row(tile.rows.begin) + tile.columns.begin, narrow(c.columns));
}

void tile_product(const Operand<float>& a, const Operand<float>& b, std::int64_t inner, float alpha, float beta,
                  FloatMatrix& c, const Tile& tile) {
  cblas_sgemm(CblasRowMajor, a.order(), b.order(), narrow(tile.rows.size), narrow(tile.columns.size), narrow(inner),
              alpha, a.at(tile.rows.begin, 0), narrow(a.stride), b.at(0, tile.columns.begin), narrow(b.stride), beta,
              c.row(tile.rows.begin) + tile.columns.begin, narrow(c.columns));
}

// c [m x n] <- alpha a [m x k] b [k x n] + beta c. With `upper`, only tiles that touch the upper triangle are computed.
template <class T>
void product(const Operand<T>& a, const Operand<T>& b, std::int64_t inner, MatrixOf<T>& c, T alpha = 1, T beta = 0,
             bool upper = false) {
  if (c.values.empty()) return;
  if (inner == 0) return std::fill(c.values.begin(), c.values.end(), T{0});
  const Tiles tiles(c.rows, c.columns);
  for_each_tile(tiles.down * tiles.across, [&](std::int64_t tile) {
    const std::int64_t i = tile / tiles.across, j = tile % tiles.across;
    if (upper && j < i) return;
    tile_product(a, b, inner, alpha, beta, c, {part(c.rows, tiles.down, i), part(c.columns, tiles.across, j)});
  });
}

template <class T>
void mirror(MatrixOf<T>& a) {  // copies the upper triangle into the lower
  constexpr std::int64_t block = 64;
  for (std::int64_t ii = 0; ii < a.rows; ii += block)
    for (std::int64_t jj = 0; jj <= ii; jj += block)
      for (std::int64_t i = ii; i < std::min(ii + block, a.rows); ++i)
        for (std::int64_t j = jj; j < std::min(jj + block, i); ++j) a(i, j) = a(j, i);
}

// a aᵀ with `side` rows, from a and its transpose.
template <class T>
MatrixOf<T> gram_of(const Operand<T>& a, const Operand<T>& transposed, std::int64_t side, std::int64_t inner) {
  MatrixOf<T> c(side, side);
  product<T>(a, transposed, inner, c, 1, 0, true);
  mirror(c);
  return c;
}

void solve_triangle(const Matrix& l, CBLAS_TRANSPOSE order, Matrix& b) {
  if (b.values.empty()) return;
  const std::int64_t strips = (b.columns + tile_side - 1) / tile_side;
  for_each_tile(strips, [&](std::int64_t strip) {
    const Range columns = part(b.columns, strips, strip);
    cblas_dtrsm(CblasRowMajor, CblasLeft, CblasLower, order, CblasNonUnit, narrow(b.rows), narrow(columns.size), 1.0,
                l.values.data(), narrow(l.columns), b.row(0) + columns.begin, narrow(b.columns));
  });
}

// Calls f(first, count) for strips of numbers, on the pool.
template <class F>
void for_each_strip(std::int64_t numbers, F&& f) {
  constexpr std::int64_t strip = 1 << 18;
  for_each_tile((numbers + strip - 1) / strip,
                [&](std::int64_t tile) { f(tile * strip, std::min(strip, numbers - tile * strip)); });
}

}  // namespace

template <class T>
MatrixOf<T>::MatrixOf(std::int64_t rows, std::int64_t columns, std::vector<T> values)
    : rows(rows), columns(columns), values(std::move(values)) {
  COMERA_CHECK(static_cast<std::int64_t>(this->values.size()) == rows * columns);
}
template struct MatrixOf<double>;
template struct MatrixOf<float>;

void check_finite(const Matrix& a, const std::string& what) {
  for (std::size_t i = 0; i < a.values.size(); ++i)
    if (!std::isfinite(a.values[i]))
      fail_input("{}: the value at row {}, column {} is {}, which is not finite; mend or leave out this tensor", what,
                 static_cast<std::int64_t>(i) / a.columns, static_cast<std::int64_t>(i) % a.columns, a.values[i]);
}

template <class T>
MatrixOf<T> identity(std::int64_t size) {
  MatrixOf<T> a(size, size);
  for (std::int64_t i = 0; i < size; ++i) a(i, i) = 1;
  return a;
}

template <class T>
MatrixOf<T> transposed(const MatrixOf<T>& a) {
  constexpr std::int64_t block = 32;
  MatrixOf<T> b(a.columns, a.rows);
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

template <class T>
MatrixOf<T> first_rows(const MatrixOf<T>& a, std::int64_t count) {
  return MatrixOf<T>(count, a.columns, std::vector<T>(a.values.begin(), a.values.begin() + count * a.columns));
}

Matrix first_columns(const Matrix& a, std::int64_t count) {
  Matrix b(a.rows, count);
  for (std::int64_t i = 0; i < a.rows; ++i) std::copy_n(a.row(i), count, b.row(i));
  return b;
}

void add(Matrix& a, const Matrix& b) {
  COMERA_CHECK(a.rows == b.rows && a.columns == b.columns);
  for_each_strip(std::ssize(a.values), [&](std::int64_t first, std::int64_t count) {
    for (std::int64_t i = first; i < first + count; ++i)
      a.values[static_cast<std::size_t>(i)] += b.values[static_cast<std::size_t>(i)];
  });
}

Matrix difference(const Matrix& a, const Matrix& b) {
  COMERA_CHECK(a.rows == b.rows && a.columns == b.columns);
  Matrix c = a;
  for_each_strip(std::ssize(c.values), [&](std::int64_t first, std::int64_t count) {
    for (std::int64_t i = first; i < first + count; ++i)
      c.values[static_cast<std::size_t>(i)] -= b.values[static_cast<std::size_t>(i)];
  });
  return c;
}

void subtract_from(const Matrix& a, Matrix& b) {
  COMERA_CHECK(a.rows == b.rows && a.columns == b.columns);
  for_each_strip(std::ssize(b.values), [&](std::int64_t first, std::int64_t count) {
    for (std::int64_t i = first; i < first + count; ++i)
      b.values[static_cast<std::size_t>(i)] =
          a.values[static_cast<std::size_t>(i)] - b.values[static_cast<std::size_t>(i)];
  });
}

template <class T>
MatrixOf<T> regrouped(const MatrixOf<T>& a, std::int64_t x, std::int64_t y, std::int64_t u, std::int64_t v) {
  MatrixOf<T> b(x * u, y * v);
  for (std::int64_t i = 0; i < x; ++i)
    for (std::int64_t j = 0; j < y; ++j)
      for (std::int64_t k = 0; k < u; ++k) std::copy_n(a.row(i * y + j) + k * v, v, b.row(i * u + k) + j * v);
  return b;
}

template Matrix identity(std::int64_t);
template FloatMatrix identity(std::int64_t);
template Matrix transposed(const Matrix&);
template FloatMatrix transposed(const FloatMatrix&);
template Matrix first_rows(const Matrix&, std::int64_t);
template FloatMatrix first_rows(const FloatMatrix&, std::int64_t);
template Matrix regrouped(const Matrix&, std::int64_t, std::int64_t, std::int64_t, std::int64_t);
template FloatMatrix regrouped(const FloatMatrix&, std::int64_t, std::int64_t, std::int64_t, std::int64_t);

Matrix multiply(const Matrix& a, const Matrix& b) {
  COMERA_CHECK(a.columns == b.rows);
  Matrix c(a.rows, b.columns);
  product(plain(a), plain(b), a.columns, c);
  return c;
}

FloatMatrix multiply(const FloatMatrix& a, const FloatMatrix& b) {
  COMERA_CHECK(a.columns == b.rows);
  FloatMatrix c(a.rows, b.columns);
  std::vector<double> sums(static_cast<std::size_t>(b.columns));
  for (std::int64_t i = 0; i < a.rows; ++i) {
    check_stop();
    std::fill(sums.begin(), sums.end(), 0.0);
    for (std::int64_t k = 0; k < a.columns; ++k) {
      const double factor = a(i, k);
      const float* from = b.row(k);
      for (std::int64_t j = 0; j < b.columns; ++j) sums[static_cast<std::size_t>(j)] += factor * from[j];
    }
    std::transform(sums.begin(), sums.end(), c.row(i), [](double sum) { return static_cast<float>(sum); });
  }
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

Matrix gram(const Matrix& a) { return gram_of(turned(a), plain(a), a.columns, a.rows); }
Matrix gram_of_rows(const Matrix& a) { return gram_of(plain(a), turned(a), a.rows, a.columns); }

namespace {

// sum += a b of one batch, tile by tile. With `upper`, only tiles that touch the upper triangle.
void add_float_product(const Operand<float>& a, const Operand<float>& b, std::int64_t inner, Matrix& sum, bool upper) {
  if (inner == 0) return;
  const Tiles tiles(sum.rows, sum.columns);
  for_each_tile(tiles.down * tiles.across, [&](std::int64_t tile) {
    const std::int64_t i = tile / tiles.across, j = tile % tiles.across;
    if (upper && j < i) return;
    const Range rows = part(sum.rows, tiles.down, i), columns = part(sum.columns, tiles.across, j);
    thread_local std::vector<float> values;
    values.resize(static_cast<std::size_t>(rows.size * columns.size));
    cblas_sgemm(CblasRowMajor, a.order(), b.order(), narrow(rows.size), narrow(columns.size), narrow(inner), 1,
                a.at(rows.begin, 0), narrow(a.stride), b.at(0, columns.begin), narrow(b.stride), 0, values.data(),
                narrow(columns.size));
    const float* from = values.data();
    for (std::int64_t row = rows.begin; row < rows.begin + rows.size; ++row, from += columns.size) {
      double* to = sum.row(row) + columns.begin;
      for (std::int64_t k = 0; k < columns.size; ++k) to[k] += static_cast<double>(from[k]);
    }
  });
}

}  // namespace

void add_upper_gram(Matrix& sum, const FloatMatrix& a) {
  if (sum.values.empty()) sum = Matrix(a.columns, a.columns);
  COMERA_CHECK(sum.rows == a.columns && sum.columns == a.columns);
  add_float_product(turned(a), plain(a), a.rows, sum, true);
}

void mirror_upper(Matrix& a) {
  COMERA_CHECK(a.rows == a.columns);
  mirror(a);
}

void add_product_tn(Matrix& sum, const FloatMatrix& a, const FloatMatrix& b) {
  COMERA_CHECK(a.rows == b.rows);
  if (sum.values.empty()) sum = Matrix(a.columns, b.columns);
  COMERA_CHECK(sum.rows == a.columns && sum.columns == b.columns);
  add_float_product(turned(a), plain(b), a.rows, sum, false);
}

FloatMatrix gram(const FloatMatrix& a) { return gram_of(turned(a), plain(a), a.columns, a.rows); }
FloatMatrix gram_of_rows(const FloatMatrix& a) { return gram_of(plain(a), turned(a), a.rows, a.columns); }

FloatMatrix to_float(const Matrix& a, double scale) {
  FloatMatrix b(a.rows, a.columns);
  for_each_strip(std::ssize(a.values), [&](std::int64_t first, std::int64_t count) {
    const double* from = a.values.data() + first;
    float* to = b.values.data() + first;
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i] * scale);
  });
  return b;
}

Matrix to_double(const FloatMatrix& a) {
  return Matrix(a.rows, a.columns, std::vector<double>(a.values.begin(), a.values.end()));
}

void multiply_into(float alpha, const FloatMatrix& a, const FloatMatrix& b, float beta, FloatMatrix& c) {
  COMERA_CHECK(a.columns == b.rows && c.rows == a.rows && c.columns == b.columns);
  product(plain(a), plain(b), a.columns, c, alpha, beta);
}

void multiply_nt_into(float alpha, const FloatMatrix& a, const FloatMatrix& b, float beta, FloatMatrix& c) {
  COMERA_CHECK(a.columns == b.columns && c.rows == a.rows && c.columns == b.rows);
  product(plain(a), turned(b), a.columns, c, alpha, beta);
}

namespace {

// The sum of of_row(i) over all rows, which the pool finds 64 at a time. The order of the sum is that of the rows.
template <class F>
double sum_over_rows(std::int64_t count, F&& of_row) {
  std::vector<double> rows(static_cast<std::size_t>(count));
  for_each_tile((count + 63) / 64, [&](std::int64_t strip) {
    for (std::int64_t i = 64 * strip; i < std::min(64 * strip + 64, count); ++i)
      rows[static_cast<std::size_t>(i)] = of_row(i);
  });
  return std::accumulate(rows.begin(), rows.end(), 0.0);
}

}  // namespace

double dot(const Matrix& a, const Matrix& b) {
  COMERA_CHECK(a.rows == b.rows && a.columns == b.columns);
  return sum_over_rows(a.rows, [&](std::int64_t i) { return cblas_ddot(narrow(a.columns), a.row(i), 1, b.row(i), 1); });
}

double dot_of_product(const Matrix& a, const Matrix& b, const Matrix& c) {
  COMERA_CHECK(a.rows == b.rows && a.columns == c.columns && b.columns == c.rows);
  constexpr std::int64_t numbers = 1 << 23;  // of the rows at a time
  const Tiles tiles(a.rows, a.columns);      // those of the whole product, so that its numbers are the same
  std::vector<double> rows(static_cast<std::size_t>(a.rows));
  for (std::int64_t first = 0, end = 0; first < tiles.down; first = end) {
    const std::int64_t begin = part(a.rows, tiles.down, first).begin;
    const auto after = [&](std::int64_t tile) { return a.rows * (tile + 1) / tiles.down; };
    for (end = first + 1; end < tiles.down && (after(end) - begin) * a.columns <= numbers;) ++end;
    Matrix strip(after(end - 1) - begin, a.columns);
    for_each_tile((end - first) * tiles.across, [&](std::int64_t index) {
      const Range down = part(a.rows, tiles.down, first + index / tiles.across);
      const Range across = part(a.columns, tiles.across, index % tiles.across);
      cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, narrow(down.size), narrow(across.size), narrow(b.columns),
                  1, b.row(down.begin), narrow(b.columns), c.row(0) + across.begin, narrow(c.columns), 0,
                  strip.row(down.begin - begin) + across.begin, narrow(strip.columns));
    });
    for_each_tile((strip.rows + 63) / 64, [&](std::int64_t part) {
      for (std::int64_t i = 64 * part; i < std::min(64 * part + 64, strip.rows); ++i)
        rows[static_cast<std::size_t>(begin + i)] = cblas_ddot(narrow(a.columns), a.row(begin + i), 1, strip.row(i), 1);
    });
  }
  return std::accumulate(rows.begin(), rows.end(), 0.0);
}

double squared_norm(const Matrix& a) { return dot(a, a); }

double squared_distance(const Matrix& a, const Matrix& b) {
  COMERA_CHECK(a.rows == b.rows && a.columns == b.columns);
  return sum_over_rows(a.rows, [&](std::int64_t i) {
    thread_local std::vector<double> lost;
    lost.resize(static_cast<std::size_t>(a.columns));
    std::transform(a.row(i), a.row(i) + a.columns, b.row(i), lost.begin(), std::minus<>());
    return cblas_ddot(narrow(a.columns), lost.data(), 1, lost.data(), 1);
  });
}

void solve_lower(const Matrix& l, Matrix& b) { solve_triangle(l, CblasNoTrans, b); }
void solve_lower_transposed(const Matrix& l, Matrix& b) { solve_triangle(l, CblasTrans, b); }

namespace {

// The diagonal block of `size` rows from `first` on <- its inverse. With halves A, B below it and C: the inverse has
// A⁻¹, -C⁻¹ B A⁻¹ and C⁻¹ in their places.
void invert_block(Matrix& l, std::int64_t first, std::int64_t size) {
  const auto at = [&](std::int64_t row, std::int64_t column) { return l.row(row) + column; };
  const int stride = narrow(l.columns);
  if (size <= tile_side) {
    Matrix inverse = identity(size);
    cblas_dtrsm(CblasRowMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, narrow(size), narrow(size), 1,
                at(first, first), stride, inverse.row(0), narrow(size));
    for (std::int64_t i = 0; i < size; ++i) std::copy_n(inverse.row(i), i + 1, at(first + i, first));
    return;
  }
  const std::int64_t upper = size / 2, lower = size - upper, middle = first + upper;
  const std::int64_t across = (upper + tile_side - 1) / tile_side, down = (lower + tile_side - 1) / tile_side;
  for_each_tile(across, [&](std::int64_t strip) {
    const Range columns = part(upper, across, strip);
    cblas_dtrsm(CblasRowMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, narrow(lower), narrow(columns.size),
                -1, at(middle, middle), stride, at(middle, first + columns.begin), stride);
  });
  for_each_tile(down, [&](std::int64_t strip) {
    const Range rows = part(lower, down, strip);
    cblas_dtrsm(CblasRowMajor, CblasRight, CblasLower, CblasNoTrans, CblasNonUnit, narrow(rows.size), narrow(upper), 1,
                at(first, first), stride, at(middle + rows.begin, first), stride);
  });
  invert_block(l, first, upper);
  invert_block(l, middle, lower);
}

}  // namespace

Matrix inverse_lower(Matrix l) {
  COMERA_CHECK(l.rows == l.columns);
  if (l.rows > 2048) {
    invert_block(l, 0, l.rows);
    return l;
  }
  Matrix inverse = identity(l.rows);
  solve_lower(l, inverse);
  return inverse;
}

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
