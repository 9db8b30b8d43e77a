// The rank objective. There are at most a few thousand rank entries, so the cost is the number of launches; all chains
// share one.
#include "kernels/cuda/common/eights.h"
#include "kernels/cuda/common/element.h"
#include "kernels/cuda/common/many_tensors.h"
#include "kernels/cuda/common/reduce.h"
#include "kernels/cuda/ops.h"
#include "kernels/rank_objective.h"

namespace comera::kernels::cuda {
namespace {

constexpr int measure_threads = 1024, chain_threads = 256, weigh_threads = 256;
constexpr std::int64_t weigh_tile = 2048;

// A core and the bond after it; the last core of a chain has none.
struct Core {
  const float* diagonal;
  float* d_diagonal;
  double size;  // s_k
  std::int32_t rank;
};

struct Chains {
  static constexpr int capacity = 31 * 1024 / (sizeof(Core) + sizeof(std::uint16_t)) - 1;

  int chains = 0, cores = 0;
  std::uint16_t first[capacity + 1];  // first core of each chain, and the end of the last
  Core core[capacity];

  bool takes(const RankChain& c) const { return cores + c.cores <= capacity; }
  void add(const RankChain& c) {
    first[chains++] = static_cast<std::uint16_t>(cores);
    for (int k = 0; k < c.cores; ++k) {
      const bool closed = k + 1 == c.cores;
      core[cores++] = {closed ? nullptr : static_cast<const float*>(c.diagonals[k]),
                       closed ? nullptr : static_cast<float*>(c.d_diagonals[k]), static_cast<double>(c.sizes[k]),
                       static_cast<std::int32_t>(c.ranks[k + 1])};
    }
    first[chains] = static_cast<std::uint16_t>(cores);
  }
};

// Calls start(chains, is first batch, is last batch); one batch if the chains fit.
template <class Start>
Status for_chains(const RankChain* chains, int count, Start start) {
  Chains batch;
  bool first = true;
  for (int i = 0; i < count; ++i) {
    if (!batch.takes(chains[i])) {
      if (const Status status = start(batch, first, false); status != Status::ok) return status;
      batch = Chains{};
      first = false;
    }
    batch.add(chains[i]);
  }
  return start(batch, first, true);
}

// The masked diagonal of a bond: number and sum of the entries above the threshold. The ends of a chain have 1 and 1.
struct Bond {
  double active = 1, norm = 1;
};

// Four threads measure one bond, and all get the result. Whole warps must call this; `core` is null if a thread has
// none.
constexpr int bond_threads = 4;
__device__ Bond measure_bond(const Core* core, double threshold) {
  constexpr int ahead = 8;  // entries that are loaded before they are added
  const float* const diagonal = core ? core->diagonal : nullptr;
  const int rank = diagonal ? core->rank : 0;
  int active = 0;
  double norm = 0;
  for (int j = threadIdx.x % bond_threads; j < rank; j += ahead * bond_threads) {
    float d[ahead];
#pragma unroll
    for (int u = 0; u < ahead; ++u) d[u] = j + u * bond_threads < rank ? diagonal[j + u * bond_threads] : NAN;
#pragma unroll
    for (int u = 0; u < ahead; ++u) {
      if (!(static_cast<double>(d[u]) > threshold)) continue;
      ++active;
      norm += d[u];
    }
  }
#pragma unroll
  for (int bits = bond_threads / 2; bits > 0; bits /= 2) {
    active += __shfl_xor_sync(full_warp, active, bits);
    norm += __shfl_xor_sync(full_warp, norm, bits);
  }
  return diagonal ? Bond{static_cast<double>(active), norm} : Bond{};
}

// Calls store(k, bond) for the bonds after cores 0 .. count - 1; the whole block takes part.
template <class Store>
__device__ void for_bonds(const Core* cores, int count, double threshold, const Store& store) {
  const int at_once = blockDim.x / bond_threads;
  for (int base = 0; base < count; base += at_once) {
    const int k = base + threadIdx.x / bond_threads;
    const Bond bond = measure_bond(k < count ? cores + k : nullptr, threshold);
    if (k < count && threadIdx.x % bond_threads == 0) store(k, bond);
  }
}

struct Totals {
  double size = 0, surrogate = 0, active = 0, norm = 0;  // S, S^, entries above the threshold, their sum
};

COMERA_DEVICE void add_chain(const Core* cores, const Bond* bonds, int count, Totals& total) {
  Bond left;
  double size = 0;
  bool empty = false;
  for (int k = 0; k < count; ++k) {
    const Bond right = bonds[k];
    size += left.active * cores[k].size * right.active;
    total.surrogate += left.norm * cores[k].size * right.norm;
    if (k + 1 < count) {
      total.active += right.active;
      total.norm += right.norm;
      empty = empty || right.active == 0;
    }
    left = right;
  }
  if (!empty) total.size += size;
}

// 1 / value, and 0 for 0: the weight that is "taken from the current value".
COMERA_DEVICE double weight_or_inverse(double weight, double value) {
  return weight != 0 ? weight : value != 0 ? 1 / value : 0;
}

COMERA_DEVICE void decide(RankState& s, double loss) {
  const bool late = s.late != 0, reached = s.reached != 0;
  const double too_much_loss = weight_or_inverse(s.weight_loss, loss) * (loss - s.target_loss);
  const double too_much_size = weight_or_inverse(s.weight_size, s.size) * (s.size - s.target_size);
  const bool push = late && !reached && too_much_loss < too_much_size;
  s.pushes_size = push ? 1 : 0;
  s.loss_weight = late ? s.rho_loss + (push ? 0 : 1) : 1;
  s.size_weight = reached ? 0 : (late ? s.rho_size + (push ? 1 : 0) : s.gamma) / s.surrogate_start;
}

COMERA_DEVICE void finish(const Totals& all, RankPenalty penalty, double loss, RankState& s) {
  s.size = all.size;
  s.active = all.active;
  s.surrogate = penalty == RankPenalty::size ? all.surrogate : all.active > 0 ? all.norm / all.active : 0;
  decide(s, loss);
}

// Adds the chains to *totals, or starts it if `begins`. With a state, also computes the decision. One block: first
// four threads per bond, then one thread per chain.
__global__ void __launch_bounds__(measure_threads)
    measure(const Chains __grid_constant__ chains, double threshold, RankPenalty penalty, bool begins,
            const double* loss, Totals* totals, RankState* state) {
  begin_kernel();
  auto* bonds = shared_memory<Bond>();
  const bool decides = threadIdx.x == 0 && state;
  RankState now{};  // read here, because each load waits for device memory
  const double loss_now = decides ? *loss : 0;
  if (decides) now = *state;
  for_bonds(chains.core, chains.cores, threshold, [&](int k, const Bond& bond) { bonds[k] = bond; });
  __syncthreads();
  Totals own;
  for (int i = threadIdx.x; i < chains.chains; i += measure_threads)
    add_chain(chains.core + chains.first[i], bonds + chains.first[i], chains.first[i + 1] - chains.first[i], own);
  double sums[] = {own.size, own.surrogate, own.active, own.norm};
  sums_of_block(sums);
  if (threadIdx.x != 0) return;
  Totals all{sums[0], sums[1], sums[2], sums[3]};
  if (!begins)
    all.size += totals->size, all.surrogate += totals->surrogate, all.active += totals->active,
        all.norm += totals->norm;
  *totals = all;
  if (!decides) return;
  finish(all, penalty, loss_now, now);
  *state = now;
}

std::size_t bond_bytes(const Chains& chains) { return static_cast<std::size_t>(chains.cores) * sizeof(Bond); }

std::size_t measure_workspace(const Context&, const RankMeasure&) { return sizeof(Totals); }

Status run(const Context& context, const RankMeasure& a) {
  if (context.workspace_bytes < sizeof(Totals)) return Status::workspace_too_small;
  auto* totals = static_cast<Totals*>(context.workspace);
  return with_element(context, [&](auto) {
    return for_chains(a.chains, a.count, [&](const Chains& chains, bool first, bool last) {
      return launch(context, {1, measure_threads, bond_bytes(chains)}, measure, chains, a.threshold, a.penalty, first,
                    a.loss, totals, last ? a.state : nullptr);
    });
  });
}

// One block per chain. `totals` is read only for the mean penalty.
__global__ void __launch_bounds__(chain_threads)
    penalise(const Chains __grid_constant__ chains, double threshold, RankPenalty penalty, const Totals* totals,
             const RankState* state) {
  begin_kernel();
  __shared__ double norms[max_cores + 1];  // of bonds 0 .. cores
  const int first = chains.first[blockIdx.x], cores = chains.first[blockIdx.x + 1] - first;
  const Core* core = chains.core + first;
  if (threadIdx.x == 0) norms[0] = 1;
  for_bonds(core, cores, threshold, [&](int k, const Bond& bond) { norms[k + 1] = bond.norm; });
  __syncthreads();
  const double loss_weight = state->loss_weight, size_weight = state->size_weight;
  for (int k = threadIdx.x / warp_size; k + 1 < cores; k += chain_threads / warp_size) {
    double slope = core[k].size * norms[k] + core[k + 1].size * norms[k + 2];
    if (penalty == RankPenalty::mean) slope = totals->active > 0 ? 1 / totals->active : 0;
    slope *= size_weight;
    for (int j = threadIdx.x % warp_size; j < core[k].rank; j += warp_size) {
      const double push = static_cast<double>(core[k].diagonal[j]) > threshold ? slope : 0.0;
      core[k].d_diagonal[j] = static_cast<float>(core[k].d_diagonal[j] * loss_weight + push);
    }
  }
}

std::size_t penalty_workspace(const Context&, const RankPenaltyGradient&) { return sizeof(Totals); }

Status run(const Context& context, const RankPenaltyGradient& a) {
  if (context.workspace_bytes < sizeof(Totals)) return Status::workspace_too_small;
  auto* totals = static_cast<Totals*>(context.workspace);
  const auto count_active = [&](const Chains& chains, bool first, bool) {
    return launch(context, {1, measure_threads, bond_bytes(chains)}, measure, chains, a.threshold, a.penalty, first,
                  nullptr, totals, nullptr);
  };
  return with_element(context, [&](auto) {
    const Status status = a.penalty == RankPenalty::mean ? for_chains(a.chains, a.count, count_active) : Status::ok;
    if (status != Status::ok) return status;
    return for_chains(a.chains, a.count, [&](const Chains& chains, bool, bool) {
      return launch(context, {static_cast<unsigned>(chains.chains), chain_threads}, penalise, chains, a.threshold,
                    a.penalty, totals, a.state);
    });
  });
}

struct WeighTile {
  float weight, weight_norm;

  __device__ void operator()(const WeighedTensor& t, std::int64_t begin, std::int64_t end, std::uint32_t) const {
    if (weight == 1 && !t.value) return;
    auto* g = static_cast<float*>(t.gradient);
    const auto* value = static_cast<const float*>(t.value);
    const float decay = static_cast<float>(t.decay) * weight_norm;
    const bool aligned = begin_aligned(g, value);
    for (std::int64_t i = begin + 4 * threadIdx.x; i < end; i += 4 * weigh_threads) {
      Four x = get<Four>(g, i, end, aligned), w{};
      if (value) w = get<Four>(value, i, end, aligned);
#pragma unroll
      for (int j = 0; j < 4; ++j) x.v[j] = value ? fmaf(decay, w.v[j], x.v[j] * weight) : x.v[j] * weight;
      put(g, i, end, aligned, x);
    }
  }
};

// Bound by memory traffic: 12 bytes per number with decay, 8 without, 0 if the weight is 1 and nothing decays.
__global__ void __launch_bounds__(weigh_threads)
    weigh(const TensorBatch<WeighedTensor> __grid_constant__ batch, const RankState* state) {
  begin_kernel();
  for_tiles(batch, weigh_tile,
            WeighTile{static_cast<float>(state->loss_weight), static_cast<float>(state->weight_norm)});
}

Status run(const Context& context, const WeighGradient& a) {
  return with_element(context, [&](auto) {
    return for_batches(a.tensors, a.count, weigh_tile, [&](const TensorBatch<WeighedTensor>& batch, std::int64_t) {
      return launch(context, {grid_for(batch.tiles, 1), weigh_threads}, weigh, batch, a.state);
    });
  });
}

}  // namespace

void bind(Op<RankMeasure>& op) { op.run = run, op.workspace_bytes = measure_workspace; }
void bind(Op<RankPenaltyGradient>& op) { op.run = run, op.workspace_bytes = penalty_workspace; }
void bind(Op<WeighGradient>& op) { op.run = run; }

}  // namespace comera::kernels::cuda
