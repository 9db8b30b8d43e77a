#include "kernels/chain_decay.h"

#include <catch2/catch.hpp>
#include <complex>

#include "kernels/reference/chain_decay.h"
#include "tests/kernels/harness/cases.h"

namespace comera::kernels::test {
namespace {

struct Chain {
  std::vector<std::int64_t> sizes, ranks;
  bool diagonals = true;
};
using Chains = std::vector<Chain>;

std::string numbered(const char* name, std::size_t chain, std::size_t k) {
  return std::string(name).append(std::to_string(chain)).append(".").append(std::to_string(k));
}

const DecayingChain* describe(const Chains& chains, Run& r) {
  auto& result = *r.keep(std::vector<DecayingChain>(chains.size()));
  for (std::size_t i = 0; i < chains.size(); ++i) {
    DecayingChain& c = result[i];
    c.cores = static_cast<int>(chains[i].sizes.size());
    std::copy(chains[i].sizes.begin(), chains[i].sizes.end(), c.sizes);
    std::copy(chains[i].ranks.begin(), chains[i].ranks.end(), c.ranks);
    for (std::size_t k = 0; k < chains[i].sizes.size(); ++k) {
      c.values[k] = r.out(numbered("core", i, k));
      if (chains[i].diagonals && k + 1 < chains[i].sizes.size()) c.diagonals[k] = r.in(numbered("diagonal", i, k));
    }
    c.scalars = static_cast<const AdamwScalars*>(r.in("group"));
  }
  return result.data();
}

constexpr double threshold = 0.01;
// Entries above, at and below the threshold, and a negative one.
const double pattern[] = {0.75, 1.25, 0.01f, 0.5, -0.5, 1, 0.001, 0.25};

struct Conditions {
  double finite = 1;
  std::uint64_t step = 12;
  bool dead = false;      // all entries of the diagonals are masked
  bool vanished = false;  // the outer cores are nearly zero
};

Case decay(const std::string& name, const Chains& chains, const Conditions& is = {}) {
  Case c(name);
  AdamwScalars group;
  group.learning_rate = 0.125, group.weight_decay = 77;  // of the cores: not used
  StepScalars scalars;
  scalars.finite = is.finite, scalars.step = is.step;
  c.bytes("group", group).bytes("scalars", scalars);
  for (std::size_t i = 0; i < chains.size(); ++i)
    for (std::size_t k = 0; k < chains[i].sizes.size(); ++k) {
      const std::int64_t rank = chains[i].ranks[k + 1];
      const std::int64_t rows = chains[i].ranks[k] * chains[i].sizes[k];
      if (is.vanished && (k == 0 || k + 1 == chains[i].sizes.size())) {
        c.values(numbered("core", i, k), std::vector<double>(static_cast<std::size_t>(rows * rank), 1e-12f));
      } else {
        c.data(numbered("core", i, k), rows, rank);
      }
      std::vector<double> diagonal(static_cast<std::size_t>(rank));
      for (std::size_t j = 0; j < diagonal.size(); ++j) diagonal[j] = is.dead ? -1 : static_cast<float>(pattern[j % 8]);
      if (chains[i].diagonals && k + 1 < chains[i].sizes.size()) c.values(numbered("diagonal", i, k), diagonal);
    }
  c.forward = [=](Run& r) {
    r.call(&Backend::chain_decay, [&] {
      return ChainDecay{
          describe(chains, r), static_cast<int>(chains.size()), 0.125, threshold, r.scalars("scalars"), 4};
    });
  };
  return c;
}

// Trains of order 1 to 3, without diagonals, a low-rank pair with more sizes than a block, ranks of one and ranks that
// fill no vector; more chains than lanes.
std::vector<Case> chain_decay_cases() {
  const Chain three{{3, 2, 4, 2, 3, 2}, {1, 2, 5, 7, 5, 2, 1}}, two{{4, 6, 5, 8}, {1, 3, 16, 9, 1}},
      pair{{70, 130}, {1, 17, 1}}, table{{150, 6}, {1, 4, 1}, false}, ones{{3, 4, 5}, {1, 1, 1, 1}},
      single{{9}, {1, 1}};
  return {decay("three and three cores", {three}),
          decay("two and two cores", {two}),
          decay("a pair", {pair}),
          decay("without diagonals", {table}),
          decay("many chains", {three, two, pair, table, ones, single, three, two, ones, table, pair}),
          decay("an empty bond", {two}, {.dead = true}),
          decay("a step that is not finite", {three, pair}, {.finite = 0}),
          decay("a step between those that decay", {three, pair}, {.step = 14}),
          decay("a weight that has vanished", {three, pair}, {.vanished = true})};
}

// |W|^2 / 2 of a chain, for the complex step.
template <class T>
T half_square_norm(const reference::MaskedChain<T>& m) {
  T sum(0);
  for (const T& w : m.product(0, m.count)) sum += w * w;
  return sum / T(2);
}

DecayingChain small_chain(std::vector<std::vector<double>>& cores, std::vector<double>& first,
                          std::vector<double>& second) {
  DecayingChain c;
  c.cores = 3;
  const std::int64_t sizes[] = {3, 4, 2}, ranks[] = {1, 3, 4, 1};
  std::copy(sizes, sizes + 3, c.sizes);
  std::copy(ranks, ranks + 4, c.ranks);
  cores.resize(3);
  for (int k = 0; k < 3; ++k) {
    for (std::int64_t i = 0; i < ranks[k] * sizes[k] * ranks[k + 1]; ++i)
      cores[static_cast<std::size_t>(k)].push_back(std::sin(1.7 * static_cast<double>(i + 1) + k));
    c.values[k] = cores[static_cast<std::size_t>(k)].data();
  }
  first = {.75, .5, -1}, second = {.5, .005, .75, .5};
  c.diagonals[0] = first.data(), c.diagonals[1] = second.data();
  return c;
}

}  // namespace

TEST_CASE("chain_decay: every backend within the derived bound of the reference") {
  check_backends(chain_decay_cases());
}
TEST_CASE("chain_decay: the same bytes again and for any number of threads") { check_repeat(chain_decay_cases()); }

TEST_CASE("chain_decay: the direction is the gradient of the weight's squared norm, by the complex step") {
  using Complex = std::complex<double>;
  std::vector<std::vector<double>> cores;
  std::vector<double> first, second;
  const DecayingChain c = small_chain(cores, first, second);
  const auto m = reference::masked_chain<double>(c, threshold);
  std::vector<std::vector<Complex>> complex(3);
  std::vector<Complex> d1(first.begin(), first.end()), d2(second.begin(), second.end());
  DecayingChain wide = c;
  for (std::size_t k = 0; k < 3; ++k) {
    complex[k].assign(cores[k].begin(), cores[k].end());
    wide.values[k] = complex[k].data();
  }
  wide.diagonals[0] = d1.data(), wide.diagonals[1] = d2.data();
  const auto w = reference::masked_chain<Complex>(wide, threshold);
  for (int k = 0; k < 3; ++k) {
    const std::vector<double> gradient =
        reference::half_norm_gradient(m, k, reference::left_gram(m, k), reference::right_gram(m, k));
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      Complex& entry = complex[static_cast<std::size_t>(k)][i];
      const Complex old = entry;
      entry += Complex(0, 1e-60);
      CHECK(gradient[i] == Approx(half_square_norm(w).imag() / 1e-60).epsilon(1e-13).margin(1e-14));
      entry = old;
    }
  }
}

// A weight of rank one in a train of rank 4: the means of the Gram matrices are a quarter of their only eigenvalue.
TEST_CASE("chain_decay: no rate and no decay turns a weight around") {
  for (const double decay : {1e-3, 1., 1e6}) {
    std::vector<double> left(16), right(16);
    for (std::size_t i = 0; i < 4; ++i) left[4 * i] = right[i] = 2;
    AdamwScalars group;
    group.learning_rate = 1;
    StepScalars scalars;
    scalars.finite = 1;
    DecayingChain c;
    c.cores = 2, c.sizes[0] = c.sizes[1] = 4, c.ranks[0] = c.ranks[2] = 1, c.ranks[1] = 4, c.values[0] = left.data(),
    c.values[1] = right.data(), c.scalars = &group;
    double before = 4;
    for (int step = 0; step < 5; ++step) {
      reference::compute<double>(ChainDecay{&c, 1, decay, threshold, &scalars});
      const double after = left[0] * right[0];
      CHECK(after > 0);
      // A weight that has vanished stays.
      if (before < 1e-28) CHECK(after == before);
      if (before >= 1e-28) CHECK(after < before);
      before = after;
    }
  }
}

TEST_CASE("chain_decay: one step in four decays by four times the share") {
  StepScalars step;
  double sum = 0;
  const ChainDecay a{nullptr, 0, .25, threshold, &step, 4};
  for (step.step = 3; step.step < 11; ++step.step) {
    const double share = share_of(a, .5);
    CHECK(share == (step.step % 4 == 0 ? .5 : 0));
    sum += share;
  }
  CHECK(sum == 8 * .5 * .25);
}

// Cores whose Gram matrices are multiples of the identity: the weight keeps its direction.
TEST_CASE("chain_decay: a weight with equal singular values shrinks by rate times decay") {
  std::vector<double> left(16), right(16);
  for (std::size_t i = 0; i < 4; ++i) left[5 * i] = 3, right[5 * i] = i % 2 == 0 ? .5 : -.5;
  AdamwScalars group;
  group.learning_rate = 1e-9;
  StepScalars scalars;
  scalars.finite = 1;
  DecayingChain c;
  c.cores = 2, c.sizes[0] = c.sizes[1] = 4, c.ranks[0] = c.ranks[2] = 1, c.ranks[1] = 4, c.values[0] = left.data(),
  c.values[1] = right.data(), c.scalars = &group;
  reference::compute<double>(ChainDecay{&c, 1, .25, threshold, &scalars});
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(left[5 * i] * right[5 * i] == Approx((i % 2 == 0 ? 1.5 : -1.5) * (1 - .25e-9)).epsilon(1e-15));
}

}  // namespace comera::kernels::test
