// CPU ops of the rank objective. There are at most a few thousand rank entries, so one thread sums them in double.
#include "kernels/rank_objective.h"

#include "kernels/cpu/common/many_tensors.h"
#include "kernels/cpu/common/simd.h"
#include "kernels/cpu/ops.h"

namespace comera::kernels::COMERA_CPU {
namespace {

// The masked diagonal of a bond: number and sum of the entries above the threshold. The closed ends have 1 and 1.
struct Bond {
  double active = 1, norm = 1;
};

Bond bond_of(const RankChain& c, int bond, double threshold) {
  if (bond == 0 || bond == c.cores) return {};
  const float* d = static_cast<const float*>(c.diagonals[bond - 1]);
  Bond b{0, 0};
  for (std::int64_t j = 0; j < c.ranks[bond]; ++j) {
    if (!(d[j] > threshold)) continue;
    b.active += 1;
    b.norm += d[j];
  }
  return b;
}

struct ChainSize {
  double size = 0, surrogate = 0, active = 0, norm = 0;  // S, S^, entries above the threshold, their sum
};

ChainSize size_of_chain(const RankChain& c, double threshold) {
  ChainSize total;
  Bond left;
  bool empty = false;
  for (int k = 0; k < c.cores; ++k) {
    const Bond right = bond_of(c, k + 1, threshold);
    const double size = static_cast<double>(c.sizes[k]);
    total.size += left.active * size * right.active;
    total.surrogate += left.norm * size * right.norm;
    if (k + 1 < c.cores) {
      total.active += right.active;
      total.norm += right.norm;
      empty = empty || right.active == 0;
    }
    left = right;
  }
  if (empty) total.size = 0;
  return total;
}

ChainSize size_of_all(const RankChain* chains, int count, double threshold) {
  ChainSize all;
  for (int i = 0; i < count; ++i) {
    const ChainSize one = size_of_chain(chains[i], threshold);
    all.size += one.size;
    all.surrogate += one.surrogate;
    all.active += one.active;
    all.norm += one.norm;
  }
  return all;
}

// Returns the weight, or 1 / value if the weight is 0 ("use the current value"); 0 if both are 0.
double weight_or_inverse(double weight, double value) { return weight != 0 ? weight : value != 0 ? 1 / value : 0; }

void decide(RankState& s, double loss) {
  const bool late = s.late != 0, reached = s.reached != 0;
  const double too_much_loss = weight_or_inverse(s.weight_loss, loss) * (loss - s.target_loss);
  const double too_much_size = weight_or_inverse(s.weight_size, s.size) * (s.size - s.target_size);
  const bool push = late && !reached && too_much_loss < too_much_size;
  s.pushes_size = push ? 1 : 0;
  s.loss_weight = late ? s.rho_loss + (push ? 0 : 1) : 1;
  s.size_weight = reached ? 0 : (late ? s.rho_size + (push ? 1 : 0) : s.gamma) / s.surrogate_start;
}

Status run(const Context& context, const RankMeasure& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  const ChainSize all = size_of_all(a.chains, a.count, a.threshold);
  RankState& s = *a.state;
  s.size = all.size;
  s.active = all.active;
  s.surrogate = a.penalty == RankPenalty::size ? all.surrogate : all.active > 0 ? all.norm / all.active : 0;
  decide(s, *a.loss);
  return Status::ok;
}

void add_penalty(const RankChain& c, int bond, double threshold, double loss_weight, double slope) {
  const float* d = static_cast<const float*>(c.diagonals[bond - 1]);
  float* gradient = static_cast<float*>(c.d_diagonals[bond - 1]);
  for (std::int64_t j = 0; j < c.ranks[bond]; ++j)
    gradient[j] = static_cast<float>(gradient[j] * loss_weight + (d[j] > threshold ? slope : 0.0));
}

Status run(const Context& context, const RankPenaltyGradient& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  const bool by_size = a.penalty == RankPenalty::size;
  const double active = by_size ? 1 : size_of_all(a.chains, a.count, a.threshold).active;
  for (int i = 0; i < a.count; ++i) {
    const RankChain& c = a.chains[i];
    for (int bond = 1; bond < c.cores; ++bond) {
      const double below = static_cast<double>(c.sizes[bond - 1]) * bond_of(c, bond - 1, a.threshold).norm;
      const double above = static_cast<double>(c.sizes[bond]) * bond_of(c, bond + 1, a.threshold).norm;
      const double slope = by_size ? below + above : active > 0 ? 1 / active : 0;
      add_penalty(c, bond, a.threshold, a.state->loss_weight, a.state->size_weight * slope);
    }
  }
  return Status::ok;
}

Status run(const Context& context, const WeighGradient& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  const F weight = set(static_cast<float>(a.state->loss_weight));
  const bool unit = a.state->loss_weight == 1;
  for_many(context, a.tensors, a.count,
           [&](const WeighedTensor& t, std::int64_t begin, std::int64_t end, std::int64_t) {
             if (unit && !t.value) return;
             float* g = static_cast<float*>(t.gradient);
             const float* value = static_cast<const float*>(t.value);
             const F decay = set(static_cast<float>(t.decay * a.state->weight_norm));
             sweep(begin, end, [&](std::int64_t i, auto lanes) {
               const F weighed = load(g + i, lanes) * weight;
               store(g + i, value ? fma(decay, load(value + i, lanes), weighed) : weighed, lanes);
             });
           });
  return Status::ok;
}

}  // namespace

void bind(Op<RankMeasure>& op) { op.run = run; }
void bind(Op<RankPenaltyGradient>& op) { op.run = run; }
void bind(Op<WeighGradient>& op) { op.run = run; }

}  // namespace comera::kernels::COMERA_CPU
