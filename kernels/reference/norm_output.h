// Reference of kernels/norm_output.h.
#pragma once

#include <algorithm>
#include <numeric>

#include "kernels/norm_output.h"
#include "kernels/reference/group_codes.h"
#include "kernels/reference/norm.h"
#include "kernels/reference/scalar.h"

namespace comera::kernels::reference {

template <class T>
double key_of(const NormPick& a, std::int32_t column) {
  const double gain = std::abs(real_part(in<T>(a.gain)[column]));
  if (!a.shift || gain == 0) return gain;
  return gain / (gain + std::abs(real_part(in<T>(a.shift)[column])));
}

template <class T>
void compute(const NormPick& a) {
  const std::int64_t picked = picked_columns(a.columns);
  std::vector<std::int32_t> order(a.columns);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t i, std::int32_t j) { return key_of<T>(a, i) < key_of<T>(a, j); });
  std::copy_n(order.begin(), picked, a.places);
  std::sort(a.places, a.places + picked);
  for (std::int64_t k = 0; k < a.tokens; ++k)
    for (std::int64_t c = 0; c < picked; ++c)
      out<T>(a.values)[k * picked + c] = in<T>(a.sum)[k * a.columns + a.places[c]];
}

template <class T>
void compute(const NormRestore& a) {
  const std::int64_t picked = picked_columns(a.columns);
  for (std::int64_t k = 0; k < a.tokens; ++k) {
    T* sum = out<T>(a.sum) + k * a.columns;
    for (std::int64_t j = 0; j < a.columns; ++j) {
      T y = in<T>(a.y)[k * a.columns + j];
      if (a.shift) y -= in<T>(a.shift)[j];
      sum[j] = y / (in<T>(a.gain)[j] * in<T>(a.rstd)[k]);
      if (a.mean) sum[j] += in<T>(a.mean)[k];
    }
    for (std::int64_t c = 0; c < picked; ++c) sum[a.places[c]] = in<T>(a.values)[k * picked + c];
  }
}

template <class T>
void compute(const NormOutputBackward& a) {
  std::vector<T> y(a.norm.tokens * a.norm.columns, T(0)), sum(y);
  NormRestore restore = a.input;
  if (!restore.y) {
    compute<T>(GroupRestore{.shape = a.coded.shape, .codes = a.coded.codes, .ranges = a.coded.ranges, .x = y.data()});
    restore.y = y.data();
  }
  restore.sum = sum.data();
  compute<T>(restore);
  NormBackward norm = a.norm;
  norm.sum = sum.data();
  compute<T>(norm);
}

}  // namespace comera::kernels::reference
