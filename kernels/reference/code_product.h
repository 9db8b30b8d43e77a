// Reference of kernels/code_product.h: X in memory, through the ops that it joins.
#pragma once

#include "kernels/code_product.h"
#include "kernels/reference/group_codes.h"
#include "kernels/reference/linear.h"

namespace comera::kernels::reference {

template <class T>
void compute(const CodeProduct& a) {
  std::vector<T> x(static_cast<std::size_t>(a.shape.rows * a.shape.columns), T(0));
  compute<T>(GroupRestore{.shape = a.shape, .codes = a.codes, .ranges = a.ranges, .x = x.data()});
  Product product;
  product.tokens = a.shape.rows, product.in = a.shape.columns, product.out = a.out;
  product.x = x.data(), product.ldx = a.shape.columns, product.g = a.g, product.ldg = a.ldg;
  product.result = a.result, product.ld_result = a.ld_result;
  compute<T>(product);
}

}  // namespace comera::kernels::reference
