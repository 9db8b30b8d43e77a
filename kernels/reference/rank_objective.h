// Reference of kernels/rank_objective.h.
#pragma once

#include "kernels/rank_objective.h"
#include "kernels/reference/scalar.h"

namespace comera::kernels::reference {

// Bond k of a chain follows core k - 1. Bonds 0 and `cores` are the closed ends, with count and norm 1.
template <class T>
double active_entries(const RankChain& c, int bond, double threshold) {
  if (bond == 0 || bond == c.cores) return 1;
  double count = 0;
  for (std::int64_t j = 0; j < c.ranks[bond]; ++j) count += real_part(in<T>(c.diagonals[bond - 1])[j]) > threshold;
  return count;
}

template <class T>
typename Wide<T>::type masked_norm(const RankChain& c, int bond, double threshold) {
  using W = typename Wide<T>::type;
  if (bond == 0 || bond == c.cores) return W(1);
  W sum(0);
  for (std::int64_t j = 0; j < c.ranks[bond]; ++j) {
    const T& d = in<T>(c.diagonals[bond - 1])[j];
    if (real_part(d) > threshold) sum += W(d);
  }
  return sum;
}

template <class T>
double true_size(const RankChain& c, double threshold) {
  double size = 0;
  for (int k = 0; k < c.cores; ++k) {
    if (active_entries<T>(c, k, threshold) == 0) return 0;
    size += active_entries<T>(c, k, threshold) * c.sizes[k] * active_entries<T>(c, k + 1, threshold);
  }
  return size;
}

template <class T>
double all_active(const RankChain* chains, int count, double threshold) {
  double sum = 0;
  for (int i = 0; i < count; ++i)
    for (int bond = 1; bond < chains[i].cores; ++bond) sum += active_entries<T>(chains[i], bond, threshold);
  return sum;
}

// S^, or the mean of the active entries (0 if there are none).
template <class T>
typename Wide<T>::type penalty_value(const RankChain* chains, int count, double threshold, RankPenalty penalty) {
  using W = typename Wide<T>::type;
  W sum(0);
  for (int i = 0; i < count; ++i) {
    const RankChain& c = chains[i];
    if (penalty == RankPenalty::size)
      for (int k = 0; k < c.cores; ++k)
        sum +=
            masked_norm<T>(c, k, threshold) * W(static_cast<double>(c.sizes[k])) * masked_norm<T>(c, k + 1, threshold);
    else
      for (int bond = 1; bond < c.cores; ++bond) sum += masked_norm<T>(c, bond, threshold);
  }
  const double active = all_active<T>(chains, count, threshold);
  return penalty == RankPenalty::size || active == 0 ? sum : sum / W(active);
}

inline void choose_weights(double loss, RankState& s) {
  const double w1 = s.weight_loss != 0 ? s.weight_loss : loss != 0 ? 1 / loss : 0;
  const double w2 = s.weight_size != 0 ? s.weight_size : s.size != 0 ? 1 / s.size : 0;
  const bool reached = s.reached != 0, late = s.late != 0;
  const bool pushes = late && !reached && w1 * (loss - s.target_loss) < w2 * (s.size - s.target_size);
  s.pushes_size = pushes;
  s.loss_weight = !late ? 1 : s.rho_loss + (pushes ? 0 : 1);
  s.size_weight = reached ? 0 : (!late ? s.gamma : s.rho_size + (pushes ? 1 : 0)) / s.surrogate_start;
}

template <class T>
void compute(const RankMeasure& a) {
  RankState& s = *a.state;
  s.size = 0;
  for (int i = 0; i < a.count; ++i) s.size += true_size<T>(a.chains[i], a.threshold);
  s.active = all_active<T>(a.chains, a.count, a.threshold);
  s.surrogate = real_part(penalty_value<T>(a.chains, a.count, a.threshold, a.penalty));
  choose_weights(*a.loss, s);
}

// Derivative of the penalty with respect to an active entry of a bond.
template <class T>
typename Wide<T>::type penalty_slope(const RankPenaltyGradient& a, const RankChain& c, int bond, double active) {
  using W = typename Wide<T>::type;
  if (a.penalty == RankPenalty::mean) return W(1) / W(active);
  return W(static_cast<double>(c.sizes[bond - 1])) * masked_norm<T>(c, bond - 1, a.threshold) +
         W(static_cast<double>(c.sizes[bond])) * masked_norm<T>(c, bond + 1, a.threshold);
}

template <class T>
void compute(const RankPenaltyGradient& a) {
  using W = typename Wide<T>::type;
  const double active = all_active<T>(a.chains, a.count, a.threshold);
  for (int i = 0; i < a.count; ++i)
    for (int bond = 1; bond < a.chains[i].cores; ++bond) {
      const RankChain& c = a.chains[i];
      for (std::int64_t j = 0; j < c.ranks[bond]; ++j) {
        T& d = out<T>(c.d_diagonals[bond - 1])[j];
        d *= T(a.state->loss_weight);
        if (real_part(in<T>(c.diagonals[bond - 1])[j]) > a.threshold)
          d += T(W(a.state->size_weight) * penalty_slope<T>(a, c, bond, active));
      }
    }
}

template <class T>
void compute(const WeighGradient& a) {
  for (int i = 0; i < a.count; ++i) {
    const WeighedTensor& t = a.tensors[i];
    for (std::int64_t j = 0; j < t.count; ++j) {
      T& g = out<T>(t.gradient)[j];
      g *= T(a.state->loss_weight);
      if (t.value) g += T(t.decay * a.state->weight_norm) * in<T>(t.value)[j];
    }
  }
}

}  // namespace comera::kernels::reference
