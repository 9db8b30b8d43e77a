// Reference of kernels/tt_output_product.h: X in memory, through the dense ops.
#pragma once

#include "kernels/reference/linear.h"
#include "kernels/tt_output_product.h"

namespace comera::kernels::reference {

template <class T>
void compute(const TtOutputProduct& a) {
  std::vector<T> x(static_cast<std::size_t>(a.tokens * a.in), T(0));
  LinearForward forward;
  forward.tokens = a.tokens, forward.in = a.rank, forward.out = a.in;
  forward.x = a.t1, forward.ldx = a.ld_t1, forward.weight = a.right, forward.bias = a.bias;
  forward.activation = a.activation, forward.y = x.data(), forward.ldy = a.in;
  compute<T>(forward);
  Product product;
  product.tokens = a.tokens, product.in = a.in, product.out = a.out;
  product.x = x.data(), product.ldx = a.in, product.g = a.g, product.ldg = a.ldg;
  product.result = a.result, product.ld_result = a.ld_result;
  compute<T>(product);
}

}  // namespace comera::kernels::reference
