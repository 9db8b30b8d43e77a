// The data-aware fit of order 3 of data_aware.h: W[(i1 i2), o] ~ sum G1[i1, a] G2[a, i2, R] B[R, o].
#include <algorithm>
#include <cmath>

#include "lib/core/error.h"
#include "lib/tt/data_aware.h"

namespace comera::tt {
namespace {

// Everything in the sorted order of the inputs; the letters are those of the header: p = i1 * second + i2.
struct Problem {
  Order3 shape;
  std::int64_t in = 0, out = 0;
  Matrix moment;   // S [in x in]
  Matrix paired;   // the same numbers as [(i1 j1) x (i2 j2)]
  Matrix outputs;  // S W [in x out]
};

struct Cores {
  Matrix first;   // G1 [first x first_rank]
  Matrix second;  // G2 [first_rank x (second R)]
  Matrix last;    // B [R x out], orthonormal rows
};

// (G1ᵀ x I) a: rows (i1 i2) of `a` become rows (a i2).
Matrix contract_first(const Matrix& first, const Matrix& a, std::int64_t second) {
  const Matrix folded = multiply_tn(first, reshaped(a, first.rows, second * a.columns));
  return reshaped(folded, first.columns * second, a.columns);
}

Problem sorted_problem(const Matrix& weight, const Matrix& moment, const Order3& shape, const std::vector<std::int32_t>& order) {
  COMERA_CHECK(shape.first * shape.second == weight.rows && shape.first_rank >= 1 && shape.first_rank <= shape.first);
  Problem p;
  p.shape = shape;
  p.in = weight.rows;
  p.out = weight.columns;
  p.moment = gather_both(moment, order);
  p.paired = regrouped(p.moment, shape.first, shape.second, shape.first, shape.second);
  p.outputs = multiply(p.moment, gather_rows(weight, order));
  return p;
}

// Partial traces of S over one of the two modes.
Matrix first_trace(const Problem& p) {
  const std::int64_t n1 = p.shape.first, n2 = p.shape.second;
  Matrix s(n1, n1);
  for (std::int64_t i = 0; i < n1; ++i)
    for (std::int64_t j = 0; j < n1; ++j)
      for (std::int64_t k = 0; k < n2; ++k) s(i, j) += p.paired(i * n1 + j, k * n2 + k);
  return s;
}

Matrix second_trace(const Problem& p) {
  const std::int64_t n1 = p.shape.first, n2 = p.shape.second;
  Matrix s(n2, n2);
  for (std::int64_t i = 0; i < n1; ++i)
    for (std::int64_t at = 0; at < n2 * n2; ++at) s.values[static_cast<std::size_t>(at)] += p.paired(i * n1 + i, at);
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
Matrix initial_first(const Problem& p, const Matrix& sorted_weight) {
  const std::int64_t n1 = p.shape.first, slice = p.shape.second * p.out;
  const Matrix weighted = apply_second(second_trace(p), sorted_weight);
  Matrix energy = multiply_nt(reshaped(sorted_weight, n1, slice), reshaped(weighted, n1, slice));
  Matrix l = shrunk(first_trace(p), 0, 1e-9);
  const bool definite = cholesky(l);
  if (definite) energy = multiply_tn(l, multiply(energy, l));
  symmetrize(energy);
  Matrix directions = transposed(first_rows(symmetric_eigen(std::move(energy)).vectors, p.shape.first_rank));
  if (definite) solve_lower_transposed(l, directions);
  return orthonormal_columns(std::move(directions));
}

// With G1 given, G2 and B together: reduced-rank regression of the outputs on the inputs that G1 leaves.
void fit_middle(const Problem& p, Cores& cores) {
  const std::int64_t width = p.shape.first_rank * p.shape.second;
  Matrix half = contract_first(cores.first, p.moment, p.shape.second);            // Zᵀ S [width x in]
  Matrix normal = contract_first(cores.first, transposed(half), p.shape.second);  // Zᵀ S Z
  symmetrize(normal);
  Matrix target = contract_first(cores.first, p.outputs, p.shape.second);  // Zᵀ S W [width x out]
  const Matrix l = damped_cholesky(normal);
  Matrix image = target;
  solve_lower(l, image);
  Matrix directions;
  if (p.out <= width) {
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

// With G2 and B given, G1 by its normal equations, (i1 a) wide.
void fit_first(const Problem& p, Cores& cores) {
  const std::int64_t n1 = p.shape.first, n2 = p.shape.second, r1 = p.shape.first_rank;
  const Matrix rows = reshaped(cores.second, r1 * n2, p.shape.rank);
  const Matrix products = regrouped(multiply_nt(rows, rows), r1, n2, r1, n2);  // [(a b) x (i2 j2)]
  const Matrix blocks = multiply_nt(p.paired, products);                       // [(i1 j1) x (a b)]
  Matrix normal = regrouped(blocks, n1, n1, r1, r1);                           // [(i1 a) x (j1 b)]
  symmetrize(normal);
  const Matrix wanted = multiply_nt(p.outputs, cores.last);                           // S W Bᵀ [in x R]
  Matrix right = multiply_nt(reshaped(wanted, n1, n2 * p.shape.rank), cores.second);  // [i1 x a]
  right = reshaped(std::move(right), n1 * r1, 1);
  solve_positive(shrunk(normal, 0, 1e-10), right);
  cores.first = orthonormal_columns(reshaped(std::move(right), n1, r1));
}

}  // namespace

Chain fit_order3(const Matrix& weight, const Matrix& moment, const Order3& shape, int sweeps) {
  std::vector<std::int32_t> order = order_by_energy(weight, moment);
  const Problem p = sorted_problem(weight, moment, shape, order);
  Cores cores;
  cores.first = initial_first(p, gather_rows(weight, order));
  fit_middle(p, cores);
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    fit_first(p, cores);
    fit_middle(p, cores);
  }
  Chain chain;
  chain.in_modes = {shape.first, shape.second};
  chain.out_modes = {weight.columns};
  chain.ranks = {1, shape.first_rank, shape.rank, 1};
  chain.cores = {std::move(cores.first.values), std::move(cores.second.values), std::move(cores.last.values)};
  chain.order = std::move(order);
  return chain;
}

}  // namespace comera::tt
