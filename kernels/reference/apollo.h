// Reference of kernels/apollo.h.
#pragma once

#include "kernels/apollo.h"
#include "kernels/reference/scalar.h"

namespace comera::kernels::reference {

template <class T>
void compute(const ApolloProject& a) {
  const SketchRule rule = rule_of(a);
  for (std::int64_t k = 0; k < a.size(); ++k) {
    T sum(0);
    for (std::int64_t i = 0; i < (a.projects_rows() ? a.rows : a.columns); ++i)
      sum += in<T>(a.gradient)[a.projects_rows() ? i * a.columns + k : k * a.columns + i] * T(entry_of(rule, i));
    out<T>(a.result)[k] = sum;
  }
}

template <class T>
void compute(const ApolloFactor& a) {
  write_factor(a);
}

template <class T>
void compute(const AddByFactor& a) {
  for (std::int64_t i = 0; i < a.count; ++i) out<T>(a.y)[i] += T(*a.factor) * in<T>(a.x)[i];
}

}  // namespace comera::kernels::reference
