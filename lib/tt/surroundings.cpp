#include "lib/tt/surroundings.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/core/error.h"

namespace comera::tt {
namespace {

// A core between its ranks, as [left size x right] and as [left x size right].
struct Core {
  Matrix tall, wide;
};

Core core_of(const Chain& chain, std::size_t k) {
  const std::int64_t left = chain.layout.ranks[k], right = chain.layout.ranks[k + 1], size = chain.layout.entry_size(k);
  return {Matrix(left * size, right, chain.cores[k]), Matrix(left, size * right, chain.cores[k])};
}

double root_of_largest(const Matrix& gram) { return std::sqrt(std::max(symmetric_eigenvalues(gram).front(), 0.0)); }

// |P|_2 of the product P of cores [begin, end) as [(r_begin s_begin .. s_{end-1}) x r_end].
double norm_forwards(const Chain& chain, std::size_t begin, std::size_t end) {
  auto gram = identity<double>(chain.layout.ranks[begin]);
  for (std::size_t k = begin; k < end; ++k) {
    const Core core = core_of(chain, k);
    const Matrix half = reshaped(multiply(gram, core.wide), core.tall.rows, core.tall.columns);
    gram = multiply_tn(core.tall, half);
    symmetrize(gram);
  }
  return root_of_largest(gram);
}

// |P|_2 of the same product as [r_begin x (s_begin .. s_{end-1} r_end)].
double norm_backwards(const Chain& chain, std::size_t begin, std::size_t end) {
  auto gram = identity<double>(chain.layout.ranks[end]);
  for (std::size_t k = end; k-- > begin;) {
    const Core core = core_of(chain, k);
    const Matrix half = reshaped(multiply(core.tall, gram), core.wide.rows, core.wide.columns);
    gram = multiply_nt(core.wide, half);
    symmetrize(gram);
    if (chain.layout.gauge && k + 1 == chain.layout.cores()) add(gram, identity<double>(gram.rows));
  }
  return root_of_largest(gram);
}

}  // namespace

std::vector<double> surrounding_norms(const Chain& chain) {
  COMERA_CHECK(chain.layout.kind == Kind::tt && !chain.cores.empty());
  const std::size_t middle = chain.layout.middle(), cores = chain.layout.cores();
  const double inputs = norm_forwards(chain, 0, middle), outputs = norm_backwards(chain, middle, cores);
  std::vector<double> norms;
  for (std::size_t k = 0; k < cores; ++k)
    norms.push_back(k < middle ? norm_forwards(chain, 0, k) * norm_forwards(chain, k + 1, middle) * outputs
                               : inputs * norm_backwards(chain, middle, k) * norm_backwards(chain, k + 1, cores));
  return norms;
}

}  // namespace comera::tt
