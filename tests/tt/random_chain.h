// Random chains for the tests of lib/tt.
#pragma once

#include "lib/tt/chain.h"
#include "tests/tt/random_matrix.h"

namespace comera::test {

inline tt::Chain random_chain(tt::Layout layout, unsigned seed) {
  tt::Chain chain;
  chain.layout = std::move(layout);
  for (std::size_t k = 0; k < chain.layout.cores(); ++k)
    chain.cores.push_back(
        random_matrix(1, tt::product(chain.layout.core_shape(k)), seed + static_cast<unsigned>(k)).values);
  return chain;
}

}  // namespace comera::test
