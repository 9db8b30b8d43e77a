// Reference of kernels/cast.h.
#pragma once

#include "kernels/cast.h"
#include "kernels/reference/scalar.h"

namespace comera::kernels::reference {

template <class T>
void compute(const Cast& a) {
  for (int i = 0; i < a.count; ++i)
    for (std::int64_t j = 0; j < a.tensors[i].count; ++j) out<T>(a.tensors[i].to)[j] = in<T>(a.tensors[i].from)[j];
}

}  // namespace comera::kernels::reference
