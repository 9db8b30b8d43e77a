// A chain of masked cores G~_k [r_{k-1}, s_k, r_k], shared by TT and TTM: partial products and their gradients.
#pragma once

#include "kernels/chain.h"
#include "kernels/reference/scalar.h"

namespace comera::kernels::reference {

template <class T>
struct MaskedChain {
  std::int64_t sizes[max_cores] = {};  // s_k
  std::int64_t ranks[max_cores + 1] = {};
  const void* const* cores = nullptr;
  const void* const* diagonals = nullptr;  // one less than cores
  int count = 0;
  double threshold = 0;

  // D~_k[j] of the bond after core k; 1 after the last core and if there is no diagonal.
  T mask(int k, std::int64_t j) const {
    if (k + 1 == count || !diagonals[k]) return T(1);
    const T& d = in<T>(diagonals[k])[j];
    return real_part(d) > threshold ? d : T(0);
  }

  std::vector<T> masked_core(int k) const {
    std::vector<T> core(ranks[k] * sizes[k] * ranks[k + 1], T(0));
    for (std::size_t i = 0; i < core.size(); ++i)
      core[i] = in<T>(cores[k])[i] * mask(k, static_cast<std::int64_t>(i) % ranks[k + 1]);
    return core;
  }

  // Product of cores first .. last - 1: [ranks[first], s_first .. s_{last-1}, ranks[last]]. An empty product is the
  // identity.
  std::vector<T> product(int first, int last) const {
    std::int64_t rows = ranks[first];
    std::vector<T> result(rows * rows, T(0));
    for (std::int64_t i = 0; i < rows; ++i) result[i * rows + i] = T(1);
    for (int k = first; k < last; ++k) {
      const std::int64_t inner = ranks[k], columns = sizes[k] * ranks[k + 1];
      const std::vector<T> core = masked_core(k);
      std::vector<T> next(rows * columns, T(0));
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < columns; ++j)
          for (std::int64_t l = 0; l < inner; ++l)
            next[i * columns + j] += result[i * inner + l] * core[l * columns + j];
      result = std::move(next);
      rows *= sizes[k];
    }
    return result;
  }

  // Gradient of the masked core k from the gradient of the product of cores first .. last - 1.
  std::vector<T> masked_gradient(int first, int k, int last, const std::vector<T>& d_product) const {
    const std::vector<T> before = product(first, k), after = product(k + 1, last);
    const std::int64_t left = ranks[k], size = sizes[k], right = ranks[k + 1];
    const std::int64_t prefix = ranks[first] * product_of(sizes, first, k),
                       suffix = product_of(sizes, k + 1, last) * ranks[last];
    std::vector<T> gradient(left * size * right, T(0));
    for (std::int64_t p = 0; p < prefix; ++p)
      for (std::int64_t s = 0; s < size; ++s)
        for (std::int64_t b = 0; b < right; ++b) {
          T sum(0);
          for (std::int64_t q = 0; q < suffix; ++q)
            sum += d_product[(p * size + s) * suffix + q] * after[b * suffix + q];
          for (std::int64_t a = 0; a < left; ++a) gradient[(a * size + s) * right + b] += before[p * left + a] * sum;
        }
    return gradient;
  }

  // Accumulates d_cores and d_diagonals for cores first .. last - 1.
  void backward(int first, int last, const std::vector<T>& d_product, void* const* d_cores,
                void* const* d_diagonals) const {
    for (int k = first; k < last; ++k) {
      const std::vector<T> gradient = masked_gradient(first, k, last, d_product);
      const bool has_diagonal = k + 1 < count && diagonals[k];
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        const std::int64_t j = static_cast<std::int64_t>(i) % ranks[k + 1];
        out<T>(d_cores[k])[i] += gradient[i] * mask(k, j);
        if (has_diagonal && real_part(in<T>(diagonals[k])[j]) > threshold)
          out<T>(d_diagonals[k])[j] += gradient[i] * in<T>(cores[k])[i];
      }
    }
  }
};

}  // namespace comera::kernels::reference
