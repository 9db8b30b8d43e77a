// Reference of kernels/lomo.h.
#pragma once

#include "kernels/lomo.h"
#include "kernels/reference/scalar.h"

namespace comera::kernels::reference {

template <class T>
void compute(const LomoFactors& a) {
  write_factors(a);
}

template <class T>
double square_of(const void* data, std::int64_t index) {
  const double x = real_part(typename Wide<T>::type(in<T>(data)[index]));
  return x * x;
}

template <class T>
void compute(const AdaLomoMeans& a) {
  std::vector<double> rows(static_cast<std::size_t>(a.rows), 0), columns(static_cast<std::size_t>(a.columns), 0);
  double total = 0;
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.columns; ++j) {
      const double square = square_of<T>(a.gradient, i * a.columns + j);
      rows[static_cast<std::size_t>(i)] += square, columns[static_cast<std::size_t>(j)] += square, total += square;
    }
  *a.applied += total;
  if (!may_apply(*a.applied, *a.loss)) return;
  const double old = share_of_old(a);
  const auto mix = [&](double* mean, const std::vector<double>& sums, std::int64_t count) {
    for (std::size_t i = 0; i < sums.size(); ++i)
      mean[i] = old * mean[i] + (1 - old) * (sums[i] / static_cast<double>(count) + a.floor);
  };
  mix(a.row, rows, a.columns), mix(a.column, columns, a.rows);
}

template <class T>
void compute(const AdaLomoFactors& a) {
  AdaLomoSums sums;
  for (std::int64_t i = 0; i < a.rows; ++i) {
    sums.rows += a.row[i];
    for (std::int64_t j = 0; j < a.columns; ++j) {
      sums.update += square_of<T>(a.gradient, i * a.columns + j) / a.row[i] / a.column[j];
      sums.value += square_of<T>(a.value, i * a.columns + j);
    }
  }
  write_factors(a, sums);
}

template <class T>
void compute(const LomoAdd& a) {
  if (a.factors[1] == 0) return;
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.columns; ++j) {
      T& value = out<T>(a.value)[i * a.columns + j];
      T update = T(a.factors[1]) * in<T>(a.gradient)[i * a.columns + j];
      if (a.row) update *= T(1 / std::sqrt(a.row[i])) * T(1 / std::sqrt(a.column[j]));
      value = T(a.factors[0]) * value + update;
    }
}

}  // namespace comera::kernels::reference
