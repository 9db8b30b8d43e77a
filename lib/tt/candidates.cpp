// best_candidate of data_aware.h: which forms are tried within a budget.
#include <algorithm>
#include <cmath>
#include <optional>

#include "lib/core/error.h"
#include "lib/tt/data_aware.h"

namespace comera::tt {
namespace {

constexpr std::int64_t widest_normal_matrix = 1500;
constexpr double highest_share = 0.45;  // of the possible rank: where a pair has more, order 3 has nothing left to win and is not tried

std::int64_t rounded_down(std::int64_t rank, std::int64_t multiple) { return rank > multiple ? rank / multiple * multiple : rank; }

// Splits of the inputs: near the square, and about 6 : 1, the first mode (groups of like energy) the larger.
std::vector<Sizes> input_splits(std::int64_t in) {
  std::vector<Sizes> splits;
  for (const double ratio : {1.5, 6.0, 0.67}) {
    Sizes best;
    double distance = std::log(2.0);
    for (std::int64_t first = 2; first <= in / 2; ++first) {
      if (in % first != 0) continue;
      const std::int64_t second = in / first;
      const double off = std::abs(std::log(static_cast<double>(first) / static_cast<double>(second) / ratio));
      if (off < distance) distance = off, best = {first, second};
    }
    if (!best.empty() && std::find(splits.begin(), splits.end(), best) == splits.end()) splits.push_back(best);
  }
  return splits;
}

std::int64_t largest_order3_rank(std::int64_t out, Order3 shape, std::int64_t bytes, const Storage& storage, std::int64_t multiple) {
  std::int64_t low = 0, high = std::min(shape.first_rank * shape.second, out) + 1;
  while (high - low > 1) {
    shape.rank = (low + high) / 2;
    (order3_bytes(out, shape, storage) <= bytes ? low : high) = shape.rank;
  }
  return rounded_down(low, multiple);
}

// Shapes that spend the budget; a first rank near the first mode is order 2 with more numbers, one below a third loses too much.
std::vector<Order3> shapes(std::int64_t in, std::int64_t out, const Search& search) {
  std::vector<Order3> all;
  for (const Sizes& split : input_splits(in))
    for (const double share : {0.45, 0.65, 0.85}) {
      Order3 shape{split[0], split[1], std::max<std::int64_t>(1, std::llround(share * static_cast<double>(split[0]))), 0};
      if (shape.first * shape.first_rank > widest_normal_matrix) continue;
      shape.rank = largest_order3_rank(out, shape, search.bytes, search.storage, search.multiple);
      if (shape.rank >= 1) all.push_back(shape);
    }
  return all;
}

struct Judge {
  const Matrix& weight;
  const Matrix& fit_moment;
  const Matrix& held_moment;
  const Search& search;
  std::optional<Candidate> best;

  double held(const Chain& chain) const { return output_error(weight, expand(chain), held_moment); }

  void offer(Chain chain, double shrinkage) {
    if (search.storage.gauge) chain = fix_gauge(std::move(chain));
    if (stored_bytes(chain, search.storage.bytes_per_number) > search.bytes) return;  // the gauge could not be fixed
    const double error = held(chain);
    if (!best || error < best->held_error) best = Candidate{std::move(chain), shrinkage, 0, error};
  }
};

Candidate best_pair(Judge& judge) {
  const Matrix& weight = judge.weight;
  const Search& search = judge.search;
  const std::int64_t rank = largest_pair_rank(weight.rows, weight.columns, search.bytes, search.storage, search.multiple);
  if (rank < 1)
    fail_input("[tt] {} bytes are too few for a weight of {} x {}; rank 1 takes {}", search.bytes, weight.rows, weight.columns,
               pair_bytes(weight.rows, weight.columns, 1, search.storage));
  for (const double rho : search.shrinkage) judge.offer(chain_of_pair(WhitenedCurve(weight, shrunk(judge.fit_moment, rho)).pair(rank)), rho);
  COMERA_CHECK(judge.best.has_value());
  return *judge.best;
}

void try_order3(Judge& judge, double rho) {
  const Matrix moment = shrunk(judge.fit_moment, rho);
  std::optional<Order3> best;
  double least = 0;
  for (const Order3& shape : shapes(judge.weight.rows, judge.weight.columns, judge.search)) {
    const double error = judge.held(fit_order3(judge.weight, moment, shape, 1));
    if (!best || error < least) best = shape, least = error;
  }
  if (best) judge.offer(fit_order3(judge.weight, moment, *best), rho);
}

}  // namespace

std::int64_t pair_bytes(std::int64_t in, std::int64_t out, std::int64_t rank, const Storage& storage) {
  const std::int64_t numbers = rank * (in + out) - (storage.gauge ? rank * rank : 0);
  return numbers * storage.bytes_per_number + (storage.gauge ? 4 * rank : 0);
}

std::int64_t order3_bytes(std::int64_t out, const Order3& shape, const Storage& storage) {
  const std::int64_t front = shape.first * shape.first_rank - shape.first * shape.second * shape.rank;  // G1 for a left half of [in x R]
  return pair_bytes(shape.first * shape.second, out, shape.rank, storage) +
         (front + shape.first_rank * shape.second * shape.rank) * storage.bytes_per_number + 4 * shape.first * shape.second;
}

std::int64_t largest_pair_rank(std::int64_t in, std::int64_t out, std::int64_t bytes, const Storage& storage, std::int64_t multiple) {
  std::int64_t low = 0, high = std::min(in, out) + 1;
  while (high - low > 1) {
    const std::int64_t rank = (low + high) / 2;
    (pair_bytes(in, out, rank, storage) <= bytes ? low : high) = rank;
  }
  return rounded_down(low, multiple);
}

Candidate best_candidate(const Matrix& weight, const Matrix& fit_moment, const Matrix& held_moment, const Search& search) {
  Judge judge{weight, fit_moment, held_moment, search, std::nullopt};
  const Candidate pair = best_pair(judge);
  const auto possible = static_cast<double>(std::min(weight.rows, weight.columns));
  if (search.order3 && static_cast<double>(pair.chain.middle()) <= highest_share * possible) try_order3(judge, pair.shrinkage);
  Candidate chosen = std::move(*judge.best);
  chosen.fit_error = output_error(weight, expand(chosen.chain), fit_moment);
  return chosen;
}

}  // namespace comera::tt
