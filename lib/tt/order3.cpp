// The data-aware fit of order 3 of data_aware.h: W[(i1 i2), o] ~ sum G1[i1, a] G2[a, i2, R] B[R, o].
#include <algorithm>
#include <cmath>

#include "lib/core/error.h"
#include "lib/tt/data_aware.h"

namespace comera::tt {
namespace {

using Fit = Order3Problem::Fit;

// Data in the sorted order of the inputs. Letters as in the header: p = i1 * second + i2.
struct Problem {
  const Order3& shape;
  const Matrix& moment;   // S [in x in]
  const Matrix& outputs;  // S W [in x out]
  const Matrix& weight;   // W [in x out]
};

// (G1ᵀ x I) a: rows (i1 i2) of `a` become rows (a i2).
Matrix contract_first(const Matrix& first, const Matrix& a, std::int64_t second) {
  const Matrix folded = multiply_tn(first, reshaped(a, first.rows, second * a.columns));
  return reshaped(folded, first.columns * second, a.columns);
}

// Partial traces of S over one of the two modes.
Matrix first_trace(const Problem& p) {
  const std::int64_t n1 = p.shape.first, n2 = p.shape.second;
  Matrix s(n1, n1);
  for (std::int64_t i = 0; i < n1; ++i)
    for (std::int64_t j = 0; j < n1; ++j)
      for (std::int64_t k = 0; k < n2; ++k) s(i, j) += p.moment(i * n2 + k, j * n2 + k);
  return s;
}

Matrix second_trace(const Problem& p) {
  const std::int64_t n1 = p.shape.first, n2 = p.shape.second;
  Matrix s(n2, n2);
  for (std::int64_t i = 0; i < n1; ++i)
    for (std::int64_t k = 0; k < n2; ++k)
      for (std::int64_t l = 0; l < n2; ++l) s(k, l) += p.moment(i * n2 + k, i * n2 + l);
  return s;
}

// S as [(i1 j1) x (i2 j2)] for i1 <= j1. The other blocks are transposes of these.
Matrix paired(const Problem& p) {
  const std::int64_t n1 = p.shape.first, n2 = p.shape.second;
  Matrix s(n1 * (n1 + 1) / 2, n2 * n2);
  std::int64_t row = 0;
  for (std::int64_t i = 0; i < n1; ++i)
    for (std::int64_t j = i; j < n1; ++j, ++row)
      for (std::int64_t k = 0; k < n2; ++k) std::copy_n(p.moment.row(i * n2 + k) + j * n2, n2, s.row(row) + k * n2);
  return s;
}

// (I x m) a: rows (i1 i2) of `a` become rows (i1 k).
Matrix apply_second(const Matrix& m, const Matrix& a) {
  Matrix b(a.rows, a.columns);
  for (std::int64_t begin = 0; begin < a.rows; begin += m.rows) {
    const Matrix slice(m.rows, a.columns, std::vector<double>(a.row(begin), a.row(begin) + m.rows * a.columns));
    const Matrix turned = multiply(m, slice);
    std::copy(turned.values.begin(), turned.values.end(), b.row(begin));
  }
  return b;
}

// The best G1 if S were the Kronecker product of its partial traces.
Matrix initial_first(const Problem& p) {
  const std::int64_t n1 = p.shape.first, slice = p.shape.second * p.weight.columns;
  const Matrix weighted = apply_second(second_trace(p), p.weight);
  Matrix energy = multiply_nt(reshaped(p.weight, n1, slice), reshaped(weighted, n1, slice));
  Matrix l = shrunk(first_trace(p), 0, 1e-9);
  const bool definite = cholesky(l);
  if (definite) energy = multiply_tn(l, multiply(energy, l));
  symmetrize(energy);
  Matrix directions = transposed(first_rows(symmetric_eigen(std::move(energy)).vectors, p.shape.first_rank));
  if (definite) solve_lower_transposed(l, directions);
  return orthonormal_columns(std::move(directions));
}

// For a given G1, computes G2 and B together: reduced-rank regression of the outputs on the inputs after G1.
void fit_middle(const Problem& p, Fit& cores) {
  const std::int64_t width = p.shape.first_rank * p.shape.second;
  Matrix half = contract_first(cores.first, p.moment, p.shape.second);            // Zᵀ S [width x in]
  Matrix normal = contract_first(cores.first, transposed(half), p.shape.second);  // Zᵀ S Z
  symmetrize(normal);
  Matrix target = contract_first(cores.first, p.outputs, p.shape.second);  // Zᵀ S W [width x out]
  const Matrix l = damped_cholesky(std::move(normal));
  Matrix image = target;
  solve_lower(l, image);
  Matrix directions;
  if (p.weight.columns <= width) {
    directions = first_rows(symmetric_eigen(gram(image)).vectors, p.shape.rank);
  } else {
    const Matrix vectors = first_rows(symmetric_eigen(gram_of_rows(image)).vectors, p.shape.rank);
    directions = transposed(orthonormal_columns(multiply_tn(image, transposed(vectors))));
  }
  Matrix solution = multiply_nt(image, directions);  // [width x R]
  solve_lower_transposed(l, solution);
  cores.second = reshaped(std::move(solution), p.shape.first_rank, p.shape.second * p.shape.rank);
  cores.last = std::move(directions);
}

// For given G2 and B, computes G1 from its normal equations of width (i1 a).
void fit_first(const Problem& p, const Matrix& pairs, Fit& cores) {
  const std::int64_t n1 = p.shape.first, n2 = p.shape.second, r1 = p.shape.first_rank;
  const Matrix rows = reshaped(cores.second, r1 * n2, p.shape.rank);
  const Matrix products = regrouped(multiply_nt(rows, rows), r1, n2, r1, n2);  // [(a b) x (i2 j2)]
  const Matrix blocks = multiply_nt(pairs, products);                          // [(i1 j1) x (a b)], i1 <= j1
  Matrix normal(n1 * r1, n1 * r1);                                             // [(i1 a) x (j1 b)]
  std::int64_t row = 0;
  for (std::int64_t i = 0; i < n1; ++i)
    for (std::int64_t j = i; j < n1; ++j, ++row)
      for (std::int64_t a = 0; a < r1; ++a)
        for (std::int64_t b = 0; b < r1; ++b)
          normal(i * r1 + a, j * r1 + b) = normal(j * r1 + b, i * r1 + a) = blocks(row, a * r1 + b);
  const Matrix wanted = multiply_nt(p.outputs, cores.last);                           // S W Bᵀ [in x R]
  Matrix right = multiply_nt(reshaped(wanted, n1, n2 * p.shape.rank), cores.second);  // [i1 x a]
  right = reshaped(std::move(right), n1 * r1, 1);
  solve_positive(shrunk(std::move(normal), 0, 1e-10), right);
  cores.first = orthonormal_columns(reshaped(std::move(right), n1, r1));
}

}  // namespace

struct Order3Problem::Sums {
  std::vector<std::int32_t> order;
  Matrix moment, outputs, weight;

  Problem of(const Order3& shape) const {
    COMERA_CHECK(shape.first * shape.second == weight.rows && shape.first_rank >= 1 && shape.first_rank <= shape.first);
    return {shape, moment, outputs, weight};
  }
};

Order3Problem::Order3Problem(const Matrix& weight, const Matrix& moment, const Matrix& outputs)
    : sums_(std::make_unique<Sums>()) {
  sums_->order = order_by_energy(weight, moment);
  sums_->moment = gather_both(moment, sums_->order);
  sums_->outputs = gather_rows(outputs, sums_->order);
  sums_->weight = gather_rows(weight, sums_->order);
}

Order3Problem::~Order3Problem() = default;

Fit Order3Problem::begin(const Order3& shape) const {
  Fit fit{shape, {}, {}, {}};
  const Problem p = sums_->of(shape);
  fit.first = initial_first(p);
  fit_middle(p, fit);
  return fit;
}

void Order3Problem::sweep(Fit& fit, int times) const {
  if (times == 0) return;
  const Problem p = sums_->of(fit.shape);
  const Matrix pairs = paired(p);
  for (int sweep = 0; sweep < times; ++sweep) {
    fit_first(p, pairs, fit);
    fit_middle(p, fit);
  }
}

Matrix Order3Problem::left(const Fit& fit) const {
  const Matrix sorted = reshaped(multiply(fit.first, fit.second), sums_->weight.rows, fit.shape.rank);
  Matrix left(sorted.rows, sorted.columns);
  for (std::int64_t p = 0; p < sorted.rows; ++p)
    std::copy_n(sorted.row(p), sorted.columns, left.row(sums_->order[static_cast<std::size_t>(p)]));
  return left;
}

Chain Order3Problem::chain(Fit fit) const {
  Chain chain;
  chain.layout = tt_layout({fit.shape.first, fit.shape.second}, {sums_->weight.columns},
                           {1, fit.shape.first_rank, fit.shape.rank, 1});
  chain.layout.sorted = !sums_->order.empty();
  chain.cores = {std::move(fit.first.values), std::move(fit.second.values), std::move(fit.last.values)};
  chain.order = sums_->order;
  return chain;
}

Chain fit_order3(const Matrix& weight, const Matrix& moment, const Order3& shape, int sweeps) {
  const Order3Problem problem(weight, moment, multiply(moment, weight));
  Fit fit = problem.begin(shape);
  problem.sweep(fit, sweeps);
  return problem.chain(std::move(fit));
}

}  // namespace comera::tt
