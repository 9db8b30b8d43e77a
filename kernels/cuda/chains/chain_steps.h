// Launches that merge cores to left and right factors and compute the gradients (chain.h), for any number of factors
// at once.
#pragma once

#include "kernels/cuda/chains/chain.h"
#include "kernels/cuda/common/workspace.h"

namespace comera::kernels::cuda {

constexpr std::int64_t most_slices = 32;  // of a sum over an inner index

// Cores 0 .. count - 1 of a left or right factor. `place` maps an index in P_count [rows, rank[count]] to the index in
// the stored factor.
template <class Place>
struct Factor {
  int count = 0;
  std::int64_t size[max_cores] = {}, rank[max_cores + 1] = {};
  const float *core[max_cores] = {}, *diagonal[max_cores] = {};
  float *d_core[max_cores] = {}, *d_diagonal[max_cores] = {};
  double threshold = 0;
  std::int64_t least_slice = 256;  // inner indices of a slice of a sum
  int rows_of_core_tile = 512;     // rows of a core's gradient per block
  void* factor = nullptr;
  const float* d_factor = nullptr;
  Place place;

  std::int64_t rows(int i) const { return rank[0] * product_of(size, 0, i); }  // of P_i
  std::int64_t columns(int i) const { return size[i] * rank[i + 1]; }  // of core i, in the step from P_i to P_{i+1}
  std::int64_t core_rows(int i) const { return rank[i] * size[i]; }
  std::int64_t inner_of_slice(std::int64_t k) const {
    const std::int64_t even = blocks_for(k, most_slices * chain_inner) * chain_inner;
    return even > least_slice ? even : least_slice;
  }
  std::int64_t slices_of(std::int64_t k) const { return k == 0 ? 1 : blocks_for(k, inner_of_slice(k)); }
};

// Memory that the steps of one factor share.
struct FactorMemory {
  float* partial[max_cores + 1] = {};    // P_2 .. P_{count-1}
  float* d_partial[max_cores + 1] = {};  // dP_1 .. dP_{count-1}, in slices
  float* gradient[max_cores] = {};       // dG~_1 .. dG~_{count-1}, in slices
  float* sums[max_cores] = {};           // per tile, for the diagonals of cores with several tiles

  template <class Place>
  FactorMemory(const Factor<Place>& h, bool backward, Parts& parts) {
    for (int i = 2; i < h.count; ++i) partial[i] = parts.take<float>(h.rows(i) * h.rank[i]);
    for (int i = 1; i < h.count && backward; ++i) {
      d_partial[i] = parts.take<float>(h.slices_of(h.columns(i)) * h.rows(i) * h.rank[i]);
      gradient[i] = parts.take<float>(h.slices_of(h.rows(i)) * h.rank[i] * h.columns(i));
    }
    for (int i = 0; i < h.count && backward; ++i) {
      const int tiles = core_tiles(static_cast<int>(h.core_rows(i)), h.rows_of_core_tile);
      if (tiles > 1) sums[i] = parts.take<float>(tiles * h.rank[i + 1]);
    }
  }
};

// Indices inside factors and cores have 32 bits.
template <class Place>
bool indices_fit(const Factor<Place>& h) {
  constexpr std::int64_t limit = (std::int64_t{1} << 31) - 1;
  for (int i = 0; i < h.count; ++i)
    if (h.rows(i + 1) * h.rank[i + 1] > limit || h.core_rows(i) * h.rank[i + 1] > limit) return false;
  return true;
}

template <class Place>
class FactorSteps {
 public:
  FactorSteps(const Factor<Place>& h, bool backward, Parts& parts) : h_(h), memory_(h, backward, parts) {}

  const Factor<Place>& factor() const { return h_; }

  // P_{i+1} = P_i G~_i
  SmallProduct<Place> contract(int i) const {
    SmallProduct<Place> g = product(h_.rows(i), h_.columns(i), h_.rank[i], h_.rank[i]);
    g.a = partial(i), g.b = core(i, h_.columns(i)), g.factor = h_.factor;
    g.c = i + 1 < h_.count ? memory_.partial[i + 1] : nullptr;
    return g;
  }
  // dP_i = dP_{i+1} G~_i^T
  SmallProduct<Place> back(int i) const {
    SmallProduct<Place> g = sliced_product(h_.rows(i), h_.rank[i], h_.columns(i));
    g.a = d_partial(i + 1, h_.columns(i)), g.b = core(i, h_.columns(i)), g.transpose_b = true,
    g.c = memory_.d_partial[i];
    return g;
  }
  // dG~_i = P_i^T dP_{i+1}
  SmallProduct<Place> gradient(int i) const {
    SmallProduct<Place> g = sliced_product(h_.rank[i], h_.columns(i), h_.rows(i));
    g.a = partial(i), g.transpose_a = true, g.b = d_partial(i + 1, h_.columns(i)), g.c = memory_.gradient[i];
    return g;
  }
  CoreCopy<Place> copy() const {
    CoreCopy<Place> c;
    c.core = core(0, h_.rank[1]), c.count = static_cast<int>(h_.core_rows(0) * h_.rank[1]), c.factor = h_.factor,
    c.place = h_.place;
    c.threshold = h_.threshold, c.blocks = static_cast<unsigned>(blocks_for(c.count, chain_threads));
    return c;
  }
  CoreGradient<Place> unmask(int i) const {
    CoreGradient<Place> g;
    g.rows = static_cast<int>(h_.core_rows(i)), g.columns = static_cast<int>(h_.rank[i + 1]),
    g.tile_rows = h_.rows_of_core_tile;
    if (i == 0)
      g.gradient = d_partial(1, g.columns);
    else
      g.gradient = sliced(memory_.gradient[i], g.columns, h_.rows(i), h_.core_rows(i) * g.columns);
    g.core = h_.core[i], g.diagonal = h_.diagonal[i], g.d_core = h_.d_core[i], g.d_diagonal = h_.d_diagonal[i],
    g.sums = memory_.sums[i];
    g.place = h_.place, g.threshold = h_.threshold;
    g.blocks = static_cast<unsigned>(core_tiles(g.rows, g.tile_rows) * blocks_for(g.columns, warp_size));
    return g;
  }

 private:
  static Operand<Place> plain(const float* data, std::int64_t columns) {
    Operand<Place> o;
    o.data = data, o.columns = static_cast<int>(columns);
    return o;
  }
  // The result of a product with inner index k, of `count` elements.
  Operand<Place> sliced(const float* data, std::int64_t columns, std::int64_t k, std::int64_t count) const {
    Operand<Place> o = plain(data, columns);
    o.slices = static_cast<std::int16_t>(h_.slices_of(k)), o.stride = static_cast<int>(count);
    return o;
  }
  Operand<Place> core(int i, std::int64_t columns) const {
    Operand<Place> o = plain(h_.core[i], columns);
    o.diagonal = h_.diagonal[i], o.period = Divisor(static_cast<int>(h_.rank[i + 1]));
    return o;
  }
  Operand<Place> partial(int i) const { return i == 1 ? core(0, h_.rank[1]) : plain(memory_.partial[i], h_.rank[i]); }
  // dP_i, read as a matrix with `columns` columns
  Operand<Place> d_partial(int i, std::int64_t columns) const {
    if (i < h_.count) return sliced(memory_.d_partial[i], columns, h_.columns(i), h_.rows(i) * h_.rank[i]);
    Operand<Place> o = plain(h_.d_factor, columns);
    o.placed = true;
    return o;
  }
  // `inner`: indices of a slice of the sum over k.
  SmallProduct<Place> product(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t inner) const {
    SmallProduct<Place> g;
    g.m = static_cast<int>(m), g.n = static_cast<int>(n), g.k = static_cast<int>(k), g.inner = static_cast<int>(inner),
    g.place = h_.place, g.threshold = h_.threshold;
    g.tile = tile_for(g.m, g.n, g.k < g.inner ? g.k : g.inner);
    const std::int64_t across = blocks_for(n, columns_of(g.tile)), tiles = across * blocks_for(m, rows_of(g.tile));
    g.across = Divisor(static_cast<int>(across)), g.tiles = Divisor(static_cast<int>(tiles));
    g.blocks = static_cast<unsigned>(tiles);
    return g;
  }
  SmallProduct<Place> sliced_product(std::int64_t m, std::int64_t n, std::int64_t k) const {
    SmallProduct<Place> g = product(m, n, k, h_.inner_of_slice(k));
    g.blocks *= static_cast<unsigned>(h_.slices_of(k));
    return g;
  }

  const Factor<Place>& h_;
  FactorMemory memory_;
};

template <class T, bool is_plain, class Place>
Status launch_products(const Context& context, const std::vector<SmallProduct<Place>>& products) {
  using Item = SmallProduct<Place>;
  return launch_batches(context, products, chain_threads, small_products<T, is_plain, Place, few_items>,
                        small_products<T, is_plain, Place, many_items<Item>>);
}

// Cores to left and right factors of elements T.
template <class T, class Place>
Status merge_factors(const Context& context, const std::vector<FactorSteps<Place>>& factors) {
  std::vector<CoreCopy<Place>> copies;
  int longest = 0;
  for (const FactorSteps<Place>& h : factors) {
    if (!indices_fit(h.factor())) return Status::unsupported_shape;
    if (h.factor().count == 1) copies.push_back(h.copy());
    longest = h.factor().count > longest ? h.factor().count : longest;
  }
  Status status = launch_batches(context, copies, chain_threads, copy_cores<T, Place, few_items>,
                                 copy_cores<T, Place, many_items<CoreCopy<Place>>>);
  for (int i = 1; i < longest && status == Status::ok; ++i) {
    std::vector<SmallProduct<Place>> products;
    for (const FactorSteps<Place>& h : factors)
      if (i < h.factor().count) products.push_back(h.contract(i));
    status = launch_products<T, true>(context, products);
  }
  return status;
}

// Computes the partial products from the first core on and their gradients from the last core back. Each launch does
// one step of both.
template <class Place>
Status walk_factors(const Context& context, const std::vector<FactorSteps<Place>>& factors) {
  int longest = 0;
  for (const FactorSteps<Place>& h : factors) {
    if (!indices_fit(h.factor())) return Status::unsupported_shape;
    longest = h.factor().count > longest ? h.factor().count : longest;
  }
  Status status = Status::ok;
  for (int i = 1; i < longest && status == Status::ok; ++i) {
    std::vector<SmallProduct<Place>> products;
    for (const FactorSteps<Place>& h : factors) {
      const int count = h.factor().count;
      if (i + 1 < count) products.push_back(h.contract(i));
      if (i < count) products.push_back(h.back(count - i));
    }
    status = launch_products<float, false>(context, products);
  }
  return status;
}

// Gradients of the factors to gradients of cores and diagonals.
template <class Place>
Status merge_factors_backward(const Context& context, const std::vector<FactorSteps<Place>>& factors) {
  using Item = CoreGradient<Place>;
  Status status = walk_factors(context, factors);
  std::vector<SmallProduct<Place>> products;
  std::vector<Item> cores, tiled;
  for (const FactorSteps<Place>& h : factors)
    for (int i = 0; i < h.factor().count; ++i) {
      if (i > 0) products.push_back(h.gradient(i));
      cores.push_back(h.unmask(i));
      if (!cores.back().sums || !cores.back().d_diagonal) continue;
      tiled.push_back(cores.back());
      tiled.back().blocks = static_cast<unsigned>(blocks_for(tiled.back().columns, chain_threads));
    }
  if (status == Status::ok) status = launch_products<float, false>(context, products);
  if (status == Status::ok)
    status = launch_batches(context, cores, core_threads, unmask_gradients<Place, few_items>,
                            unmask_gradients<Place, many_items<Item>>);
  if (status == Status::ok)
    status = launch_batches(context, tiled, chain_threads, join_diagonals<Place, few_items>,
                            join_diagonals<Place, many_items<Item>>);
  return status;
}

}  // namespace comera::kernels::cuda
