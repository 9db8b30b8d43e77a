// GPTQ and coordinate descent for linear weights.
#include <algorithm>
#include <memory>

#include "lib/core/error.h"
#include "lib/core/half.h"
#include "lib/quant/levels.h"
#include "lib/quant/rounding.h"

namespace comera::quant {
namespace {

using tt::Matrix;

// A linear weight during its fit: codes [in x out], and the steps [groups x out] of its groups of inputs.
struct Codes {
  Grid grid;
  std::int64_t in, out, group;
  std::vector<std::uint8_t> codes;
  std::vector<Step> steps;

  Codes(Grid grid, std::int64_t in, std::int64_t out)
      : grid(grid),
        in(in),
        out(out),
        group(group_of(grid)),
        codes(static_cast<std::size_t>(in * out)),
        steps(static_cast<std::size_t>(groups_of(grid, in) * out)) {}

  std::uint8_t* row(std::int64_t i) { return codes.data() + i * out; }
  Step* steps_of(std::int64_t first) { return steps.data() + first / group * out; }

  Quantised packed() const {
    Quantised result{grid, out, in, {}};
    result.bytes.resize(static_cast<std::size_t>(out * line_bytes(grid, in)));
    std::vector<std::uint8_t> numbers;
    for (std::int64_t line = 0; line < out; ++line)
      for (std::int64_t first = 0; first < in; first += group) {
        numbers.clear();
        for (std::int64_t i = first; i < std::min(first + group, in); ++i)
          numbers.push_back(codes[static_cast<std::size_t>(i * out + line)]);
        pack(grid, steps[static_cast<std::size_t>(first / group * out + line)], numbers, group_in(result, line, first));
      }
    return result;
  }
};

Matrix damped(Matrix h, double damping) {
  const double mean = tt::trace(h) / static_cast<double>(std::max<std::int64_t>(h.rows, 1));
  for (std::int64_t i = 0; i < h.rows; ++i) h(i, i) += mean > 0 ? damping * mean : 1;
  return h;
}

// The upper triangle U with Uᵀ U = H⁻¹. With rows and columns in reverse order, H = (R L R)(R L R)ᵀ for the Cholesky
// factor L of R H R, and U is the inverse of the upper triangle R L R.
Matrix inverse_root(Matrix h) {
  std::reverse(h.values.begin(), h.values.end());  // both rows and columns
  Matrix root = tt::inverse_lower(tt::damped_cholesky(std::move(h)));
  std::reverse(root.values.begin(), root.values.end());
  return root;
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

// Rounds numbers, one per line, and gives their errors divided by `diagonal`.
COMERA_AVX2 void round_row(const Levels& levels, const Step* steps, double diagonal, std::span<const double> row,
                           std::uint8_t* codes, double* errors) {
  for (std::size_t line = 0; line < row.size(); ++line) {
    const double code = levels.nearest(steps[line].scale, steps[line].least, row[line]);
    codes[line] = static_cast<std::uint8_t>(static_cast<int>(code));
    errors[line] = (row[line] - levels.level(steps[line].scale, steps[line].least, code)) / diagonal;
  }
}

// Moves codes to the best level while all else stays: by local / own. Gives the moves of the numbers.
COMERA_AVX2 void move_row(const Levels& levels, const Step* steps, double own, std::span<const double> local,
                          std::uint8_t* codes, double* by, double* change) {
  for (std::size_t line = 0; line < local.size(); ++line) {
    const float scale = steps[line].scale, least = steps[line].least;
    const double before = levels.level(scale, least, static_cast<double>(static_cast<int>(codes[line])));
    const double code = levels.nearest(scale, least, before + local[line] / own);
    codes[line] = static_cast<std::uint8_t>(static_cast<int>(code));
    by[line] = levels.level(scale, least, code) - before;
    change[line] += by[line];
  }
}

// to += a b, number by number
COMERA_AVX2 void add_products(std::span<const double> a, const double* b, double* to) {
  for (std::size_t i = 0; i < a.size(); ++i) to[i] += a[i] * b[i];
}

// to -= factor from
COMERA_AVX2 void subtract(double factor, std::span<const double> from, double* to) {
  for (std::size_t i = 0; i < from.size(); ++i) to[i] -= factor * from[i];
}

// `root`: the inverse root of H.
Codes gptq(const Matrix& weight, const Matrix& root, Grid grid) {
  Matrix left = weight;  // what is left to round
  Codes codes(grid, weight.rows, weight.columns);
  const Levels levels(grid);
  const auto lines = static_cast<std::size_t>(codes.out);
  for (std::int64_t first = 0; first < codes.in; first += codes.group) {
    const std::int64_t count = std::min(codes.group, codes.in - first), rest = codes.in - first - count;
    choose_steps(codes, left, root, first, count);
    const Step* steps = codes.steps_of(first);
    Matrix errors(count, codes.out);  // each divided by its diagonal of the root
    for (std::int64_t i = 0; i < count; ++i) {
      round_row(levels, steps, root(first + i, first + i), {left.row(first + i), lines}, codes.row(first + i),
                errors.row(i));
      for (std::int64_t k = i + 1; k < count; ++k)
        subtract(root(first + i, first + k), {errors.row(i), lines}, left.row(first + k));
    }
    if (rest == 0) break;
    const Matrix moved = tt::multiply_tn(part_of(root, first, count, first + count, rest), errors);
    double* later = left.row(first + count);
    for (std::size_t i = 0; i < moved.values.size(); ++i) later[i] -= moved.values[i];
  }
  return codes;
}

// One pass of coordinate descent over the groups of a weight. `gradient` is H (W - Q) and follows every change.
class Descent {
 public:
  Descent(const Matrix& weight, const Matrix& h, Codes& codes) : h_(h), codes_(codes), gradient_(weight) {
    for (std::int64_t i = 0; i < codes.in; ++i)
      for (std::int64_t line = 0; line < codes.out; ++line)
        gradient_(i, line) -= level(codes.grid, codes.steps_of(i)[line], codes.row(i)[line]);
    gradient_ = tt::multiply(h, gradient_);
  }

  void sweep() {
    for (std::int64_t first = 0; first < codes_.in; first += codes_.group) {
      const std::int64_t count = std::min(codes_.group, codes_.in - first);
      Matrix change(count, codes_.out);  // of the numbers of the group
      Matrix local = part_of(gradient_, first, count, 0, codes_.out);
      move_codes(first, local, change);
      move_scales(first, local, change);
      const Matrix moved = tt::multiply_tn(part_of(h_, first, count, 0, codes_.in), change);
      for (std::size_t i = 0; i < moved.values.size(); ++i) gradient_.values[i] -= moved.values[i];
    }
  }

 private:
  void move_codes(std::int64_t first, Matrix& local, Matrix& change) {
    const Levels levels(codes_.grid);
    std::vector<double> by(static_cast<std::size_t>(codes_.out));
    for (std::int64_t i = 0; i < local.rows; ++i) {
      move_row(levels, codes_.steps_of(first), h_(first + i, first + i), {local.row(i), by.size()},
               codes_.row(first + i), by.data(), change.row(i));
      for (std::int64_t k = 0; k < local.rows; ++k) subtract(h_(first + k, first + i), by, local.row(k));
    }
  }

  // The scale d of a group gives its numbers d c. Loss as a function of a change of d: den d² - 2 num d.
  void move_scales(std::int64_t first, const Matrix& local, Matrix& change) {
    Step* steps = codes_.steps_of(first);
    const std::int64_t count = local.rows;
    Matrix c(count, codes_.out);
    for (std::int64_t i = 0; i < count; ++i)
      for (std::int64_t line = 0; line < codes_.out; ++line)
        c(i, line) = level(codes_.grid, {1, 0}, codes_.row(first + i)[line]);
    const Matrix products = tt::multiply(part_of(h_, first, count, first, count), c);
    std::vector<double> num(static_cast<std::size_t>(codes_.out)), den(num.size());
    for (std::int64_t i = 0; i < count; ++i) {
      add_products({c.row(i), num.size()}, local.row(i), num.data());
      add_products({c.row(i), den.size()}, products.row(i), den.data());
    }
    for (std::int64_t line = 0; line < codes_.out; ++line) {
      const double down = den[static_cast<std::size_t>(line)], up = num[static_cast<std::size_t>(line)];
      if (!(down > 0)) continue;
      const float before = steps[line].scale;
      const float after = half_to_float(float_to_half(static_cast<float>(before + up / down)));
      const double by = static_cast<double>(after) - before;
      if (after == 0 || !(by * (down * by - 2 * up) < 0)) continue;
      steps[line].scale = after;
      for (std::int64_t i = 0; i < count; ++i) change(i, line) += by * c(i, line);
    }
  }

  const Matrix& h_;
  Codes& codes_;
  Matrix gradient_;
};

}  // namespace

LinearFit::LinearFit(const tt::KeptMatrix& moment, const FitOptions& options) : sweeps_(options.sweeps) {
  if (sweeps_ > 0) h_ = moment.alike(damped(moment.copy(), options.damping));
  root_ = moment.alike(inverse_root(damped(moment.copy(), options.damping)));
}

Quantised LinearFit::fit(const Matrix& weight, Grid grid) const {
  COMERA_CHECK(weight.rows == root_.rows);
  Codes codes = gptq(weight, *root_.get(), grid);
  if (sweeps_ == 0) return codes.packed();
  const std::shared_ptr<const Matrix> h = h_.get();
  Descent descent(weight, *h, codes);
  for (int i = 0; i < sweeps_; ++i) descent.sweep();
  return codes.packed();
}

Quantised fit_linear(const Matrix& weight, const tt::KeptMatrix& moment, Grid grid, const FitOptions& options) {
  return LinearFit(moment, options).fit(weight, grid);
}

}  // namespace comera::quant
