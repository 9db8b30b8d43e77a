#include "kernels/rank_objective.h"

#include <catch2/catch.hpp>

#include "kernels/reference/rank_objective.h"
#include "tests/kernels/harness/cases.h"

namespace comera::kernels::test {
namespace {

struct Chain {
  std::vector<std::int64_t> sizes, ranks;
};
using Chains = std::vector<Chain>;

std::string name_of_bond(const char* name, std::size_t i, int bond) {
  return std::string(name).append(std::to_string(i)).append(".").append(std::to_string(bond));
}

const RankChain* describe(const Chains& chains, Run& r, bool gradients) {
  auto& result = *r.keep(std::vector<RankChain>(chains.size()));
  for (std::size_t i = 0; i < chains.size(); ++i) {
    RankChain& c = result[i];
    c.cores = static_cast<int>(chains[i].sizes.size());
    std::copy(chains[i].sizes.begin(), chains[i].sizes.end(), c.sizes);
    std::copy(chains[i].ranks.begin(), chains[i].ranks.end(), c.ranks);
    for (int bond = 1; bond < c.cores; ++bond) {
      c.diagonals[bond - 1] = r.in(name_of_bond("diagonal", i, bond));
      if (gradients) c.d_diagonals[bond - 1] = r.out(name_of_bond("d_diagonal", i, bond));
    }
  }
  return result.data();
}

const double pattern[] = {0.75, 1.25, -0.5, 0.5, 0.1f, 0.01f, 0.001, 1};

void add_diagonals(Case& c, const Chains& chains, bool all_masked) {
  for (std::size_t i = 0; i < chains.size(); ++i)
    for (int bond = 1; bond < static_cast<int>(chains[i].sizes.size()); ++bond) {
      std::vector<double> d(chains[i].ranks[bond]);
      for (std::size_t j = 0; j < d.size(); ++j) d[j] = all_masked ? -1 : static_cast<float>(pattern[(j + bond) % 8]);
      c.data(name_of_bond("d_diagonal", i, bond), 1, chains[i].ranks[bond])
          .values(name_of_bond("diagonal", i, bond), d);
    }
}

constexpr int state_fields = sizeof(RankState) / sizeof(double);

Case objective(const std::string& name, const Chains& chains, const RankState& state, RankPenalty penalty,
               double threshold, bool all_masked = false) {
  Case c(name + (penalty == RankPenalty::mean ? " mean" : " size") + " threshold " + std::to_string(threshold));
  add_diagonals(c, chains, all_masked);
  const auto* fields = reinterpret_cast<const double*>(&state);
  c.values("state", {fields, fields + state_fields}, Content::f64).values("loss", {1.5}, Content::f64);
  std::int64_t entries = 0;
  for (const Chain& chain : chains)
    for (auto rank : chain.ranks) entries += rank;
  // Sums of positive terms, two products, one quotient.
  c.tensor("state").f64_roundings = static_cast<double>(2 * entries + 8);
  const int count = static_cast<int>(chains.size());
  c.forward = [=](Run& r) {
    r.call(&Backend::rank_measure, [&] {
      return RankMeasure{describe(chains, r, false),
                         count,
                         threshold,
                         penalty,
                         r.doubles("loss"),
                         static_cast<RankState*>(r.out("state"))};
    });
    r.call(&Backend::rank_penalty_gradient, [&] {
      return RankPenaltyGradient{describe(chains, r, true), count, threshold, penalty,
                                 static_cast<const RankState*>(r.in("state"))};
    });
  };
  return c;
}

Case weigh(const std::vector<std::int64_t>& counts, double loss_weight, double weight_norm = 1) {
  Case c("weigh " + std::to_string(counts.size()) + " tensors by " + std::to_string(loss_weight) + " and " +
         std::to_string(weight_norm));
  RankState state;
  state.loss_weight = loss_weight, state.weight_norm = weight_norm;
  c.bytes("state", state);
  for (std::size_t i = 0; i < counts.size(); ++i)
    c.data(name_of_bond("g", i, 0), 1, counts[i]).data(name_of_bond("v", i, 0), 1, counts[i]);
  c.forward = [=](Run& r) {
    r.call(&Backend::weigh_gradient, [&] {
      auto& tensors = *r.keep(std::vector<WeighedTensor>(counts.size()));
      for (std::size_t i = 0; i < counts.size(); ++i)
        tensors[i] = {counts[i], r.out(name_of_bond("g", i, 0)), i % 2 ? nullptr : r.in(name_of_bond("v", i, 0)),
                      i % 2 ? 0 : 2e-3};
      return WeighGradient{tensors.data(), static_cast<int>(counts.size()),
                           static_cast<const RankState*>(r.in("state"))};
    });
  };
  return c;
}

void add_states(std::vector<Case>& cases, RankPenalty penalty, double threshold) {
  const Chains chains{{{2, 3, 2, 3, 2, 2}, {1, 2, 3, 4, 3, 2, 1}},
                      {{20, 12}, {1, 30, 1}},
                      {{4, 6, 5, 8}, {1, 8, 16, 8, 1}},
                      {{9}, {1, 1}}};
  RankState early, far_size, far_loss, weights, reached;
  early.surrogate_start = 321;
  far_size = early, far_size.late = 1, far_size.target_loss = 1.4, far_size.target_size = 100;
  far_loss = far_size, far_loss.target_loss = 0.1, far_loss.target_size = 2000;
  weights = far_size, weights.weight_loss = 0.5, weights.weight_size = 1e-4;
  reached = far_size, reached.reached = 1;
  cases.push_back(objective("early", chains, early, penalty, threshold));
  cases.push_back(objective("late, size far", chains, far_size, penalty, threshold));
  cases.push_back(objective("late, loss far", chains, far_loss, penalty, threshold));
  cases.push_back(objective("late, weights given", chains, weights, penalty, threshold));
  cases.push_back(objective("late, reached", chains, reached, penalty, threshold));
  cases.push_back(objective("late, nothing left", chains, far_size, penalty, threshold, true));
}

}  // namespace

static std::vector<Case> rank_objective_cases() {
  std::vector<Case> cases;
  for (RankPenalty penalty : {RankPenalty::size, RankPenalty::mean})
    for (double threshold : {0.01, 0.1}) add_states(cases, penalty, threshold);
  cases.push_back(weigh({1}, 1));
  cases.push_back(weigh({37, 1000, 5, 20000}, 0.1));
  cases.push_back(weigh({37, 1000}, 1, 0));
  cases.push_back(weigh({37, 1000}, 2, 0.25));
  return cases;
}

TEST_CASE("rank_objective: every backend within the derived bound of the reference") {
  check_backends(rank_objective_cases());
}
TEST_CASE("rank_objective: the same bytes again and for any number of threads") {
  check_repeat(rank_objective_cases());
}

TEST_CASE("rank_objective: gradient of both penalties by the complex step") {
  using Complex = std::complex<double>;
  const auto penalty = GENERATE(RankPenalty::size, RankPenalty::mean);
  std::vector<Complex> d1{.75, .5, -1}, d2{.5, .005, .75, .5};
  std::vector<double> r1{.75, .5, -1}, r2{.5, .005, .75, .5}, g1(3), g2(4);
  RankChain chain;
  chain.cores = 3, chain.sizes[0] = 4, chain.sizes[1] = 5, chain.sizes[2] = 6;
  chain.ranks[0] = 1, chain.ranks[1] = 3, chain.ranks[2] = 4, chain.ranks[3] = 1;
  chain.diagonals[0] = r1.data(), chain.diagonals[1] = r2.data(), chain.d_diagonals[0] = g1.data(),
  chain.d_diagonals[1] = g2.data();
  RankState state;
  state.loss_weight = 0, state.size_weight = 1;
  reference::compute<double>(RankPenaltyGradient{&chain, 1, .01, penalty, &state});
  chain.diagonals[0] = d1.data(), chain.diagonals[1] = d2.data();
  const auto derivative = [&](Complex& entry) {
    const Complex old = entry;
    entry += Complex(0, 1e-60);
    const double result = reference::penalty_value<Complex>(&chain, 1, .01, penalty).imag() / 1e-60;
    entry = old;
    return result;
  };
  for (int j = 0; j < 3; ++j) CHECK(g1[j] == Approx(derivative(d1[j])).epsilon(1e-14).margin(1e-300));
  for (int j = 0; j < 4; ++j) CHECK(g2[j] == Approx(derivative(d2[j])).epsilon(1e-14).margin(1e-300));
}

}  // namespace comera::kernels::test
