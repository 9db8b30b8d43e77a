// GPTQ and coordinate descent for linear weights.
#include <algorithm>
#include <array>

#include "lib/core/error.h"
#include "lib/core/half.h"
#include "lib/quant/rounding.h"

namespace comera::quant {
namespace {

using tt::Matrix;

// A linear weight during its fit: codes [in x out], and the steps [blocks x out] of its blocks of 32 inputs.
struct Codes {
  Grid grid;
  std::int64_t in, out;
  std::vector<std::uint8_t> codes;
  std::vector<Step> steps;

  Codes(Grid grid, std::int64_t in, std::int64_t out)
      : grid(grid),
        in(in),
        out(out),
        codes(static_cast<std::size_t>(in * out)),
        steps(static_cast<std::size_t>((in + block - 1) / block * out)) {}

  std::uint8_t* row(std::int64_t i) { return codes.data() + i * out; }
  Step* steps_of(std::int64_t first) { return steps.data() + first / block * out; }

  Quantised packed() const {
    Quantised result{grid, out, in, {}};
    result.bytes.resize(static_cast<std::size_t>(out * line_bytes(grid, in)));
    for (std::int64_t line = 0; line < out; ++line)
      for (std::int64_t first = 0; first < in; first += block) {
        std::array<std::uint8_t, block> numbers{};
        for (std::int64_t i = first; i < std::min(first + block, in); ++i)
          numbers[static_cast<std::size_t>(i - first)] = codes[static_cast<std::size_t>(i * out + line)];
        pack(grid, steps[static_cast<std::size_t>(first / block * out + line)], numbers,
             result.bytes.data() + line * line_bytes(grid, in) + first / block * block_bytes(grid));
      }
    return result;
  }
};

Matrix damped(const Matrix& moment, double damping) {
  Matrix h = moment;
  const double mean = tt::trace(moment) / static_cast<double>(std::max<std::int64_t>(moment.rows, 1));
  for (std::int64_t i = 0; i < h.rows; ++i) h(i, i) += mean > 0 ? damping * mean : 1;
  return h;
}

// The upper triangle U with Uᵀ U = H⁻¹. With rows and columns in reverse order, H = (R L R)(R L R)ᵀ for the Cholesky
// factor L of R H R, and U is the inverse of the upper triangle R L R.
Matrix inverse_root(const Matrix& h) {
  const std::int64_t n = h.rows;
  Matrix reversed(n, n);
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) reversed(i, j) = h(n - 1 - i, n - 1 - j);
  const Matrix lower = tt::damped_cholesky(std::move(reversed));
  Matrix inverse(n, n);
  for (std::int64_t i = 0; i < n; ++i) inverse(i, i) = 1;
  tt::solve_lower(lower, inverse);
  Matrix upper(n, n);
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = i; j < n; ++j) upper(i, j) = inverse(n - 1 - i, n - 1 - j);
  return upper;
}

// Rows [first, first + count) and columns [from, from + width) of a.
Matrix part_of(const Matrix& a, std::int64_t first, std::int64_t count, std::int64_t from, std::int64_t width) {
  Matrix part(count, width);
  for (std::int64_t i = 0; i < count; ++i) std::copy_n(a.row(first + i) + from, width, part.row(i));
  return part;
}

void choose_steps(Codes& codes, const Matrix& left, const Matrix& root, std::int64_t first, std::int64_t count) {
  std::vector<double> importance(static_cast<std::size_t>(count)), column(importance.size());
  for (std::int64_t i = 0; i < count; ++i)
    importance[static_cast<std::size_t>(i)] = 1 / (root(first + i, first + i) * root(first + i, first + i));
  for (std::int64_t line = 0; line < codes.out; ++line) {
    for (std::int64_t i = 0; i < count; ++i) column[static_cast<std::size_t>(i)] = left(first + i, line);
    codes.steps_of(first)[line] = best_step(codes.grid, column, importance);
  }
}

Codes gptq(const Matrix& weight, const Matrix& h, Grid grid) {
  const Matrix root = inverse_root(h);
  Matrix left = weight;  // what is left to round
  Codes codes(grid, weight.rows, weight.columns);
  for (std::int64_t first = 0; first < codes.in; first += block) {
    const std::int64_t count = std::min(block, codes.in - first), rest = codes.in - first - count;
    choose_steps(codes, left, root, first, count);
    const Step* steps = codes.steps_of(first);
    Matrix errors(count, codes.out);  // each divided by its diagonal of the root
    for (std::int64_t i = 0; i < count; ++i) {
      const double* row = left.row(first + i);
      for (std::int64_t line = 0; line < codes.out; ++line) {
        const int code = nearest(grid, steps[line], row[line]);
        codes.row(first + i)[line] = static_cast<std::uint8_t>(code);
        errors(i, line) = (row[line] - level(grid, steps[line], code)) / root(first + i, first + i);
      }
      for (std::int64_t k = i + 1; k < count; ++k) {
        const double share = root(first + i, first + k);
        double* later = left.row(first + k);
        for (std::int64_t line = 0; line < codes.out; ++line) later[line] -= share * errors(i, line);
      }
    }
    if (rest == 0) break;
    const Matrix moved = tt::multiply_tn(part_of(root, first, count, first + count, rest), errors);
    double* later = left.row(first + count);
    for (std::size_t i = 0; i < moved.values.size(); ++i) later[i] -= moved.values[i];
  }
  return codes;
}

// One pass of coordinate descent over the blocks of a weight. `gradient` is H (W - Q) and follows every change.
class Descent {
 public:
  Descent(const Matrix& weight, const Matrix& h, Codes& codes) : h_(h), codes_(codes), gradient_(weight) {
    for (std::int64_t i = 0; i < codes.in; ++i)
      for (std::int64_t line = 0; line < codes.out; ++line)
        gradient_(i, line) -= level(codes.grid, codes.steps_of(i)[line], codes.row(i)[line]);
    gradient_ = tt::multiply(h, gradient_);
  }

  void sweep() {
    for (std::int64_t first = 0; first < codes_.in; first += block) {
      const std::int64_t count = std::min(block, codes_.in - first);
      Matrix change(count, codes_.out);  // of the numbers of the block
      Matrix local = part_of(gradient_, first, count, 0, codes_.out);
      move_codes(first, local, change);
      move_scales(first, local, change);
      const Matrix moved = tt::multiply_tn(part_of(h_, first, count, 0, codes_.in), change);
      for (std::size_t i = 0; i < moved.values.size(); ++i) gradient_.values[i] -= moved.values[i];
    }
  }

 private:
  void move_codes(std::int64_t first, Matrix& local, Matrix& change) {
    const Step* steps = codes_.steps_of(first);
    std::vector<double> by(static_cast<std::size_t>(codes_.out));
    for (std::int64_t i = 0; i < local.rows; ++i) {
      const double own = h_(first + i, first + i);
      std::uint8_t* row = codes_.row(first + i);
      for (std::int64_t line = 0; line < codes_.out; ++line) {
        const float before = level(codes_.grid, steps[line], row[line]);
        row[line] = static_cast<std::uint8_t>(nearest(codes_.grid, steps[line], before + local(i, line) / own));
        const double step = static_cast<double>(level(codes_.grid, steps[line], row[line])) - before;
        by[static_cast<std::size_t>(line)] = step;
        change(i, line) += step;
      }
      for (std::int64_t k = 0; k < local.rows; ++k) {
        const double share = h_(first + k, first + i);
        double* other = local.row(k);
        for (std::int64_t line = 0; line < codes_.out; ++line)
          other[line] -= share * by[static_cast<std::size_t>(line)];
      }
    }
  }

  // The scale d of a block gives its numbers d c. Loss as a function of a change of d: den d² - 2 num d.
  void move_scales(std::int64_t first, const Matrix& local, Matrix& change) {
    Step* steps = codes_.steps_of(first);
    const std::int64_t count = local.rows;
    std::vector<double> c(static_cast<std::size_t>(count));
    for (std::int64_t line = 0; line < codes_.out; ++line) {
      double num = 0, den = 0;
      for (std::int64_t i = 0; i < count; ++i)
        c[static_cast<std::size_t>(i)] = level(codes_.grid, {1, 0}, codes_.row(first + i)[line]);
      for (std::int64_t i = 0; i < count; ++i) {
        double product = 0;
        for (std::int64_t k = 0; k < count; ++k) product += h_(first + i, first + k) * c[static_cast<std::size_t>(k)];
        num += c[static_cast<std::size_t>(i)] * local(i, line);
        den += c[static_cast<std::size_t>(i)] * product;
      }
      if (!(den > 0)) continue;
      const float before = steps[line].scale;
      const float after = half_to_float(float_to_half(static_cast<float>(before + num / den)));
      const double by = static_cast<double>(after) - before;
      if (after == 0 || !(by * (den * by - 2 * num) < 0)) continue;
      steps[line].scale = after;
      for (std::int64_t i = 0; i < count; ++i) change(i, line) += by * c[static_cast<std::size_t>(i)];
    }
  }

  const Matrix& h_;
  Codes& codes_;
  Matrix gradient_;
};

}  // namespace

Quantised fit_linear(const Matrix& weight, const Matrix& moment, Grid grid, const FitOptions& options) {
  COMERA_CHECK(moment.rows == weight.rows && moment.columns == weight.rows);
  const Matrix h = damped(moment, options.damping);
  Codes codes = gptq(weight, h, grid);
  if (options.sweeps == 0) return codes.packed();
  Descent descent(weight, h, codes);
  for (int i = 0; i < options.sweeps; ++i) descent.sweep();
  return codes.packed();
}

}  // namespace comera::quant
