// Reference of kernels/galore.h. The basis is computed in double for every type.
#pragma once

#include "kernels/galore.h"
#include "kernels/reference/scalar.h"

namespace comera::kernels::reference {

using Vectors = std::vector<std::vector<double>>;

inline double dot(const std::vector<double>& x, const std::vector<double>& y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

// Takes the parts along the first `count` vectors from x, twice. Returns the part of the norm that is left.
inline double take_parts(const Vectors& vectors, std::size_t count, std::vector<double>& x) {
  const double before = std::sqrt(dot(x, x));
  for (int pass = 0; pass < 2; ++pass)
    for (std::size_t j = 0; j < count; ++j) {
      const double part = dot(vectors[j], x);
      for (std::size_t k = 0; k < x.size(); ++k) x[k] -= part * vectors[j][k];
    }
  return before > 0 ? std::sqrt(dot(x, x)) / before : 0;
}

inline void orthonormalise(const SketchRule& rule, Vectors& vectors) {
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    std::vector<double>& x = vectors[i];
    if (take_parts(vectors, i, x) < dependent) {
      for (std::size_t k = 0; k < x.size(); ++k)
        x[k] = start_entry(rule, static_cast<std::int64_t>(vectors.size() + i), static_cast<std::int64_t>(k));
      take_parts(vectors, i, x);
    }
    const double norm = std::sqrt(dot(x, x));
    for (double& entry : x) entry /= norm;
  }
}

// Eigenvectors are the rows of `turned`, the largest eigenvalue first.
inline Vectors eigenvectors(std::vector<double> matrix, std::int64_t size) {
  std::vector<double> turned(matrix.size());
  for (std::int64_t i = 0; i < size; ++i) turned[static_cast<std::size_t>(i * size + i)] = 1;
  double trace = 0;
  for (std::int64_t i = 0; i < size; ++i) trace += matrix[static_cast<std::size_t>(i * size + i)];
  bool rotated = true;
  for (int sweep = 0; rotated && sweep < largest_sweeps; ++sweep) {
    rotated = false;
    for (std::int64_t i = 0; i < size; ++i)
      for (std::int64_t j = i + 1; j < size; ++j) {
        const Rotation r = rotation_of(matrix.data(), size, trace, {1, 0, i, j});
        if (r.first == r.second) continue;
        rotated = true;
        for (std::int64_t k = 0; k < size; ++k) rotate(r, &matrix[i * size + k], &matrix[j * size + k]);
        for (std::int64_t k = 0; k < size; ++k) rotate(r, &matrix[k * size + i], &matrix[k * size + j]);
        for (std::int64_t k = 0; k < size; ++k) rotate(r, &turned[i * size + k], &turned[j * size + k]);
      }
  }
  Vectors sorted(static_cast<std::size_t>(size));
  for (std::int64_t i = 0; i < size; ++i)
    sorted[static_cast<std::size_t>(place_of(matrix.data(), size, i))] = {turned.begin() + i * size,
                                                                          turned.begin() + (i + 1) * size};
  return sorted;
}

// Rows of x times the gradient as [small, large], or times its transpose.
template <class T>
Vectors multiply(const GaloreBasis& a, const Vectors& x, bool transposed) {
  Vectors y(x.size(), std::vector<double>(static_cast<std::size_t>(transposed ? a.small() : a.large())));
  for (std::size_t v = 0; v < x.size(); ++v)
    for (std::int64_t i = 0; i < a.small(); ++i)
      for (std::int64_t j = 0; j < a.large(); ++j) {
        const double g = real_part(in<T>(a.gradient)[a.projects_rows() ? i * a.columns + j : j * a.columns + i]);
        const auto from = static_cast<std::size_t>(transposed ? j : i),
                   to = static_cast<std::size_t>(transposed ? i : j);
        y[v][to] += x[v][from] * g;
      }
  return y;
}

template <class T>
void compute(const GaloreBasis& a) {
  if (!a.due()) return;
  const SketchRule rule = rule_of(a);
  Vectors q(static_cast<std::size_t>(a.width()), std::vector<double>(static_cast<std::size_t>(a.small())));
  for (std::size_t v = 0; v < q.size(); ++v)
    for (std::size_t k = 0; k < q[v].size(); ++k)
      q[v][k] = start_entry(rule, static_cast<std::int64_t>(v), static_cast<std::int64_t>(k));
  orthonormalise(rule, q);
  for (int step = 0; step < GaloreBasis::iterations; ++step) {
    Vectors z = multiply<T>(a, q, false);
    orthonormalise(rule, z);
    q = multiply<T>(a, z, true);
    orthonormalise(rule, q);
  }
  const Vectors b = multiply<T>(a, q, false);
  std::vector<double> squares;
  for (const auto& x : b)
    for (const auto& y : b) squares.push_back(dot(x, y));
  const Vectors turned = eigenvectors(squares, a.width());
  for (std::int64_t v = 0; v < a.rank; ++v) {
    T* const to = out<T>(a.basis) + v * a.small();
    std::vector<double> vector(static_cast<std::size_t>(a.small())), old;
    for (std::size_t j = 0; j < q.size(); ++j)
      for (std::size_t k = 0; k < vector.size(); ++k) vector[k] += turned[static_cast<std::size_t>(v)][j] * q[j][k];
    for (std::size_t k = 0; k < vector.size(); ++k) old.push_back(real_part(to[k]));
    const double sign = dot(old, vector) < 0 ? -1 : 1;
    for (std::size_t k = 0; k < vector.size(); ++k) to[k] = T(sign * vector[k]);
  }
  *a.epoch = a.epoch_of_step();
}

}  // namespace comera::kernels::reference
