// Reference of kernels/host_copy.h.
#pragma once

#include <cstring>

#include "kernels/host_copy.h"
#include "kernels/reference/scalar.h"

namespace comera::kernels::reference {

template <class T>
void compute(const HostCopy& a) {
  if (a.bytes > 0) std::memcpy(a.to, a.from, a.bytes);
}

template <class T>
void compute(const HostJoin&) {}

}  // namespace comera::kernels::reference
