// Reference of kernels/chain_decay.h.
#pragma once

#include "kernels/chain_decay.h"
#include "kernels/reference/chain.h"

namespace comera::kernels::reference {

template <class T>
MaskedChain<T> masked_chain(const DecayingChain& c, double threshold) {
  MaskedChain<T> m;
  for (int k = 0; k < c.cores; ++k) m.sizes[k] = c.sizes[k];
  for (int k = 0; k <= c.cores; ++k) m.ranks[k] = c.ranks[k];
  m.cores = c.values, m.diagonals = c.diagonals, m.count = c.cores, m.threshold = threshold;
  return m;
}

// L of core k, [r_k, r_k].
template <class T>
std::vector<T> left_gram(const MaskedChain<T>& m, int k) {
  const std::vector<T> product = m.product(0, k);
  const std::int64_t rank = m.ranks[k], rows = product_of(m.sizes, 0, k);
  std::vector<T> gram(rank * rank, T(0));
  for (std::int64_t p = 0; p < rows; ++p)
    for (std::int64_t i = 0; i < rank; ++i)
      for (std::int64_t j = 0; j < rank; ++j) gram[i * rank + j] += product[p * rank + i] * product[p * rank + j];
  return gram;
}

// R of core k, [r_{k+1}, r_{k+1}].
template <class T>
std::vector<T> right_gram(const MaskedChain<T>& m, int k) {
  const std::vector<T> product = m.product(k + 1, m.count);
  const std::int64_t rank = m.ranks[k + 1], columns = product_of(m.sizes, k + 1, m.count);
  std::vector<T> gram(rank * rank, T(0));
  for (std::int64_t i = 0; i < rank; ++i)
    for (std::int64_t j = 0; j < rank; ++j) {
      T sum(0);
      for (std::int64_t p = 0; p < columns; ++p) sum += product[i * columns + p] * product[j * columns + p];
      gram[i * rank + j] = m.mask(k, i) * sum * m.mask(k, j);
    }
  return gram;
}

// L G_k R, the gradient of |W|^2 / 2.
template <class T>
std::vector<T> half_norm_gradient(const MaskedChain<T>& m, int k, const std::vector<T>& left,
                                  const std::vector<T>& right) {
  const std::int64_t rows = m.ranks[k], size = m.sizes[k], columns = m.ranks[k + 1];
  std::vector<T> gradient(rows * size * columns, T(0));
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t s = 0; s < size; ++s)
      for (std::int64_t j = 0; j < columns; ++j)
        for (std::int64_t a = 0; a < rows; ++a) {
          T sum(0);
          for (std::int64_t b = 0; b < columns; ++b)
            sum += in<T>(m.cores[k])[(a * size + s) * columns + b] * right[b * columns + j];
          gradient[(i * size + s) * columns + j] += left[i * rows + a] * sum;
        }
  return gradient;
}

// The mean of a Gram matrix's diagonal over the active entries of bond k (rank_objective.h); 0 if there are none.
template <class T>
T mean_of_active(const MaskedChain<T>& m, int k, const std::vector<T>& gram) {
  T sum(0);
  double active = 0;
  for (std::int64_t j = 0; j < m.ranks[k]; ++j) {
    sum += gram[j * m.ranks[k] + j];
    active += k == 0 || real_part(m.mask(k - 1, j)) > 0;
  }
  return active > 0 ? sum / T(active) : T(0);
}

template <class T>
double norm_of(const std::vector<T>& gram) {
  double sum = 0;
  for (const T& g : gram) sum += real_part(g) * real_part(g);
  return std::sqrt(sum);
}

template <class T>
void decay_chain(const DecayingChain& c, const ChainDecay& a) {
  const double share = share_of(a, c.scalars->learning_rate);
  if (share == 0) return;
  const MaskedChain<T> m = masked_chain<T>(c, a.threshold);
  std::vector<std::vector<T>> gradients;
  for (int k = 0; k < m.count; ++k) {
    const std::vector<T> left = left_gram(m, k), right = right_gram(m, k);
    const double means = real_part(mean_of_active(m, k, left)) * real_part(mean_of_active(m, k + 1, right));
    if (means == 0) return;
    gradients.push_back(half_norm_gradient(m, k, left, right));
    const double norms = norm_of(left) * norm_of(right);
    for (T& g : gradients.back()) g *= T(factor_of(share / m.count, means, norms));
  }
  for (int k = 0; k < m.count; ++k)
    for (std::size_t i = 0; i < gradients[k].size(); ++i) out<T>(c.values[k])[i] -= gradients[k][i];
}

template <class T>
void compute(const ChainDecay& a) {
  for (int i = 0; i < a.count; ++i) decay_chain<T>(a.chains[i], a);
}

}  // namespace comera::kernels::reference
