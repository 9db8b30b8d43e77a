// best_candidate of data_aware.h: tries several forms within a byte budget.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "lib/core/error.h"
#include "lib/core/terminal/stop.h"
#include "lib/tt/data_aware.h"

namespace comera::tt {
namespace {

constexpr std::int64_t widest_normal_matrix = 1500;
// Share of the largest possible rank; if the pair's rank is higher, order 3 cannot win and is not tried.
constexpr double highest_share = 0.45;

std::int64_t rounded_down(std::int64_t rank, std::int64_t multiple) {
  return rank > multiple ? rank / multiple * multiple : rank;
}

// Splits of the inputs: near square, and about 6 : 1, where the first mode (groups of similar energy) is the larger
// one.
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

std::int64_t largest_order3_rank(std::int64_t out, Order3 shape, std::int64_t bytes, const Storage& storage,
                                 std::int64_t multiple) {
  std::int64_t low = 0, high = std::min(shape.first_rank * shape.second, out) + 1;
  while (high - low > 1) {
    shape.rank = (low + high) / 2;
    (order3_bytes(out, shape, storage) <= bytes ? low : high) = shape.rank;
  }
  return rounded_down(low, multiple);
}

// Shapes that use the budget. A first rank near the first mode gives order 2 with more numbers; a first rank below a
// third of it loses too much.
std::vector<Order3> shapes(std::int64_t in, std::int64_t out, const Search& search) {
  std::vector<Order3> all;
  for (const Sizes& split : input_splits(in))
    for (const double share : {0.45, 0.65, 0.85}) {
      Order3 shape{split[0], split[1], std::max<std::int64_t>(1, std::llround(share * static_cast<double>(split[0]))),
                   0};
      if (shape.first * shape.first_rank > widest_normal_matrix) continue;
      shape.rank = largest_order3_rank(out, shape, search.bytes, search.storage, search.multiple);
      if (shape.rank >= 1) all.push_back(shape);
    }
  return all;
}

// Evaluates all candidates of one weight with the same measure.
struct Judge {
  const KeptMatrix& kept;
  const std::shared_ptr<const Matrix> in_memory;
  const Matrix& weight;
  const KeptMatrix& fit_moment;
  const KeptMatrix& held_moment;
  const Search& search;
  const WhitenedCurve* curve;  // of the fitted moment; null: not known
  const bool wide;             // more outputs than inputs
  Matrix own_outputs = {};
  const Matrix& outputs;  // S W of the fitted moment
  std::vector<double> diagonal;
  Matrix held_outputs;  // S W of the held-out moment
  double held_norm = 0;
  std::optional<Candidate> best = {};

  Judge(const KeptMatrix& weight, const KeptMatrix& fit_moment, const KeptMatrix& held_moment, const Search& search,
        const WhitenedCurve* curve)
      : kept(weight),
        in_memory(weight.get()),
        weight(*in_memory),
        fit_moment(fit_moment),
        held_moment(held_moment),
        search(search),
        curve(curve),
        wide(weight.columns > weight.rows),
        outputs(curve && !curve->outputs().values.empty() ? curve->outputs() : own_outputs) {
    {
      const std::shared_ptr<const Matrix> moment = fit_moment.get();
      if (outputs.values.empty()) own_outputs = multiply(*moment, this->weight);
      for (std::int64_t i = 0; i < moment->rows; ++i) diagonal.push_back((*moment)(i, i));
    }
    held_outputs = multiply(*held_moment.get(), this->weight);
    held_norm = std::max(0.0, dot(this->weight, held_outputs));
  }

  double held(const Chain& chain) const {
    const double loss = output_loss(weight, expand(chain), held_moment);
    return held_norm > 0 ? std::sqrt(loss / held_norm) : loss == 0 ? 0 : std::numeric_limits<double>::infinity();
  }

  // ||x W - x L B||² of the held-out inputs without the expanded weight. Values near 0 are rounding errors.
  double held_loss(const Matrix& left, const Matrix& right) const {
    return held_norm - 2 * dot(left, multiply_nt(held_outputs, right)) +
           dot(multiply_tn(left, multiply(*held_moment.get(), left)), multiply_nt(right, right));
  }

  // S W of the shrunk moment.
  Matrix shrunk_outputs(double rho) const {
    Matrix all = outputs;
    for (std::int64_t i = 0; i < all.rows && rho > 0; ++i)
      for (std::int64_t o = 0; o < all.columns; ++o)
        all(i, o) = (1 - rho) * all(i, o) + rho * diagonal[static_cast<std::size_t>(i)] * weight(i, o);
    return all;
  }

  Pair pair(std::int64_t rank, double rho) const {
    if (rho == 0 && curve) return curve->pair(rank);
    // With no more outputs than inputs, the curve needs the moment for its outputs alone.
    return wide ? WhitenedCurve(kept, shrunk(fit_moment.copy(), rho), Matrix()).pair(rank)
                : WhitenedCurve(kept, fit_moment, shrunk_outputs(rho)).pair(rank);
  }

  Candidate made(Chain chain, double shrinkage) const {
    if (search.storage.gauge) chain = fix_gauge(std::move(chain));
    const double error = held(chain);
    return {std::move(chain), shrinkage, error};
  }

  void offer(Candidate candidate) {
    // Too large if no gauge could be fixed.
    if (stored_bytes(candidate.chain, search.storage.blocks) > search.bytes) return;
    if (!best || candidate.held_error < best->held_error) best = std::move(candidate);
  }
};

Candidate best_pair(Judge& judge) {
  const Matrix& weight = judge.weight;
  const Search& search = judge.search;
  const std::int64_t rank =
      largest_pair_rank(weight.rows, weight.columns, search.bytes, search.storage, search.multiple);
  if (rank < 1)
    fail_input("[tt] {} bytes are too few for a weight of {} x {}; rank 1 takes {}", search.bytes, weight.rows,
               weight.columns, pair_bytes(weight.rows, weight.columns, 1, search.storage));
  struct Tried {
    double rho = 0, loss = 0;
    Pair pair;
  };
  std::vector<Tried> tried(search.shrinkage.size());
  // Each call holds the moment of the held-out inputs, or the weight and its outputs.
  each_alone(std::ssize(tried), weight.rows * std::max(weight.rows, weight.columns), [&](std::int64_t i) {
    check_stop();
    Tried& one = tried[static_cast<std::size_t>(i)];
    one.rho = search.shrinkage[static_cast<std::size_t>(i)];
    one.pair = judge.pair(rank, one.rho);
    one.loss = judge.held_loss(one.pair.left, one.pair.right);
  });
  std::stable_sort(tried.begin(), tried.end(), [](const Tried& a, const Tried& b) { return a.loss < b.loss; });
  for (std::size_t i = 0; i < tried.size() && !judge.best; ++i)
    judge.offer(judge.made(chain_of_pair(std::move(tried[i].pair)), tried[i].rho));
  COMERA_CHECK(judge.best.has_value());
  return *judge.best;
}

constexpr std::size_t swept = 2;  // number of shapes that are swept once
constexpr int sweeps = 5;

// Initialises every shape, sweeps the best `swept` shapes once, and applies the other sweeps to the best of these.
void try_order3(Judge& judge, double rho) {
  struct Tried {
    Order3Problem::Fit fit;
    double loss = 0;
  };
  const std::vector<Order3> all = shapes(judge.weight.rows, judge.weight.columns, judge.search);
  if (all.empty()) return;
  const Order3Problem problem(judge.weight, shrunk(judge.fit_moment.copy(), rho), judge.shrunk_outputs(rho));
  std::vector<Tried> tried(all.size());
  const auto by_loss = [](const Tried& a, const Tried& b) { return a.loss < b.loss; };
  const auto look = [&](Tried& one) { one.loss = judge.held_loss(problem.left(one.fit), one.fit.last); };
  each_alone(std::ssize(all), [&](std::int64_t i) {
    check_stop();
    Tried& one = tried[static_cast<std::size_t>(i)];
    one.fit = problem.begin(all[static_cast<std::size_t>(i)]);
    look(one);
  });
  std::stable_sort(tried.begin(), tried.end(), by_loss);
  tried.resize(std::min(swept, tried.size()));
  each_alone(std::ssize(tried), [&](std::int64_t i) {
    check_stop();
    problem.sweep(tried[static_cast<std::size_t>(i)].fit, 1);
    look(tried[static_cast<std::size_t>(i)]);
  });
  Tried& best = *std::min_element(tried.begin(), tried.end(), by_loss);
  problem.sweep(best.fit, sweeps - 1);
  judge.offer(judge.made(problem.chain(std::move(best.fit)), rho));
}

}  // namespace

std::int64_t pair_bytes(std::int64_t in, std::int64_t out, std::int64_t rank, const Storage& storage) {
  const std::int64_t right = storage.gauge ? out - rank : out;
  return storage.blocks.of(in * rank) + storage.blocks.of(rank * right) + (storage.gauge ? 4 * rank : 0);
}

std::int64_t order3_bytes(std::int64_t out, const Order3& shape, const Storage& storage) {
  const CoreBlocks& blocks = storage.blocks;
  const std::int64_t right = storage.gauge ? out - shape.rank : out;
  return blocks.of(shape.first * shape.first_rank) + blocks.of(shape.first_rank * shape.second * shape.rank) +
         blocks.of(shape.rank * right) + (storage.gauge ? 4 * shape.rank : 0) + 4 * shape.first * shape.second;
}

std::int64_t largest_pair_rank(std::int64_t in, std::int64_t out, std::int64_t bytes, const Storage& storage,
                               std::int64_t multiple) {
  std::int64_t low = 0, high = std::min(in, out) + 1;
  while (high - low > 1) {
    const std::int64_t rank = (low + high) / 2;
    (pair_bytes(in, out, rank, storage) <= bytes ? low : high) = rank;
  }
  return rounded_down(low, multiple);
}

Candidate best_candidate(const KeptMatrix& weight, const KeptMatrix& fit_moment, const KeptMatrix& held_moment,
                         const Search& search, const WhitenedCurve* curve) {
  Judge judge(weight, fit_moment, held_moment, search, curve);
  const Candidate pair = best_pair(judge);
  const auto possible = static_cast<double>(std::min(weight.rows, weight.columns));
  if (search.order3 && static_cast<double>(pair.chain.layout.ranks[1]) <= highest_share * possible)
    try_order3(judge, pair.shrinkage);
  return std::move(*judge.best);
}

}  // namespace comera::tt
