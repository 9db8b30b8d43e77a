#include "lib/train/least_loss.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

using namespace comera;
using train::ChainDiagonals;
using train::Kept;

namespace {

std::vector<std::int64_t> ranks_of(const std::vector<std::vector<std::int64_t>>& bonds) {
  std::vector<std::int64_t> ranks;
  for (const auto& bond : bonds) ranks.push_back(std::ssize(bond));
  return ranks;
}

std::vector<ChainDiagonals> random_chains() {
  std::mt19937 random(7);
  std::vector<ChainDiagonals> chains;
  const auto draw = [&](std::int64_t rank) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < rank; ++i) values.push_back(std::exp(-0.01 * static_cast<double>(random() % 1000)));
    return values;
  };
  chains.push_back({"table", {3000, 64}, {draw(8)}});
  for (int c = 0; c < 4; ++c) chains.push_back({"linear", {8, 8, 8, 8}, {draw(8), draw(20), draw(8)}});
  return chains;
}

}  // namespace

TEST_CASE("a cut: the least important entries of a bond leave, and the size is met from below") {
  const std::vector<ChainDiagonals> chains{{"pair", {10, 6}, {{0.3, 5, 0.2, 4, 0.1}}}};
  CHECK(train::cut_with_least_loss(chains, {.size = 40}, 0)[0] == std::vector<std::vector<std::int64_t>>{{1, 3}});
  CHECK(train::cut_with_least_loss(chains, {.size = 48}, 0)[0] == std::vector<std::vector<std::int64_t>>{{0, 1, 3}});
  // 16 numbers of the cores and one of the diagonal for an entry
  CHECK(ranks_of(train::cut_with_least_loss(chains, {.size = 50, .per_entry = 1}, 0)[0])[0] == 2);
  CHECK(ranks_of(train::cut_with_least_loss(chains, {.size = 51, .per_entry = 1}, 0)[0])[0] == 3);
}

TEST_CASE("a cut compares the loss per parameter that an entry frees") {
  // 20 parameters for an entry of the first, 4 for one of the second.
  const std::vector<ChainDiagonals> chains{{"large", {10, 10}, {{9, 9}}}, {"small", {2, 2}, {{2, 2, 2, 2, 2}}}};
  CHECK(train::cut_with_least_loss(chains, {.size = 40}, 0)[0][0].size() == 1);
  const std::vector<ChainDiagonals> less{{"large", {10, 10}, {{9, 9}}}, {"small", {2, 2}, {{1, 1, 1, 1, 1}}}};
  const Kept kept = train::cut_with_least_loss(less, {.size = 40}, 0);
  CHECK(kept[0][0].size() == 2);
  CHECK(kept[1][0].empty());
}

TEST_CASE("a cut: an entry much larger than what is missing leaves only if smaller ones are worth more") {
  // By loss per parameter the large entry is first (1 / 100 against .02 and .04), and 4 parameters are missing.
  const auto kept_with = [](double small) {
    const std::vector<ChainDiagonals> chains{{"large", {50, 50}, {{8, 1}}}, {"small", {1, 1}, {{small, small, small}}}};
    const Kept kept = train::cut_with_least_loss(chains, {.size = 202}, 0);
    return std::pair{kept[0][0].size(), kept[1][0].size()};
  };
  CHECK(kept_with(0.04) == std::pair<std::size_t, std::size_t>{2, 1});  // .08 is lost, less than 1
  CHECK(kept_with(0.8) == std::pair<std::size_t, std::size_t>{1, 3});   // 1 is lost, less than 1.6
}

TEST_CASE("a cut: what one bond of a chain has lost, its other bonds cannot lose again") {
  // 12 of the 92 parameters leave with the second entry of the chain's first bond (.9 / 12 against 1.4 / 16). Then the
  // second entry of its other bond counts 1 / 1.9 of its importance: 1 / 11 would be more than 1.4 / 16.
  const std::vector<ChainDiagonals> chains{{"chain", {10, 1, 10}, {{1, 0.9}, {2, 1}}}, {"pair", {8, 8}, {{5, 2, 1.4}}}};
  const Kept kept = train::cut_with_least_loss(chains, {.size = 70}, 0);
  CHECK(ranks_of(kept[0]) == std::vector<std::int64_t>{1, 1});
  CHECK(ranks_of(kept[1]) == std::vector<std::int64_t>{3});
}

TEST_CASE("a cut on the way: no entry leaves that the target keeps, and less leaves where more is allowed") {
  const std::vector<ChainDiagonals> chains = random_chains();
  const auto full = static_cast<double>(train::size_of(chains, train::above(chains, -1)));
  const train::SizeTarget target{.size = 0.3 * full};
  const auto contains = [](const Kept& large, const Kept& small) {
    for (std::size_t c = 0; c < large.size(); ++c)
      for (std::size_t k = 0; k < large[c].size(); ++k)
        if (!std::includes(large[c][k].begin(), large[c][k].end(), small[c][k].begin(), small[c][k].end()))
          return false;
    return true;
  };
  Kept last = train::cut_with_least_loss(chains, target, 0);
  CHECK(target.measure(chains, last) <= target.size);
  CHECK(target.measure(chains, last) >= 0.98 * target.size);
  for (const double share : {0.4, 0.6, 0.8, 1.0}) {
    const Kept kept = train::cut_with_least_loss(chains, target, share * full);
    CHECK(target.measure(chains, kept) <= share * full);
    CHECK(contains(kept, last));
    last = kept;
  }
  CHECK(train::entries_of(last) == train::entries_of(chains));
}

TEST_CASE("a cut takes nothing from a model below the target, nor from a chain without diagonals") {
  const std::vector<ChainDiagonals> chains{{"folded", {40, 40}, {}}, {"pair", {4, 4}, {{1, 2}}}};
  const Kept all = train::cut_with_least_loss(chains, {.size = 1000}, 0);
  CHECK(all[0].empty());
  CHECK(ranks_of(all[1]) == std::vector<std::int64_t>{2});
  CHECK(ranks_of(train::cut_with_least_loss(chains, {.size = 90}, 0)[1]) == std::vector<std::int64_t>{1});
}

TEST_CASE("a cut leaves floors, even where they exceed the target, and an empty bond takes its whole chain") {
  std::vector<ChainDiagonals> chains{{"floored", {4, 4, 4}, {{1, 2, 3}, {1, 2, 3}}, 2}, {"free", {4, 4}, {{9, 9}}}};
  const Kept kept = train::cut_with_least_loss(chains, {.size = 1}, 0);
  CHECK(ranks_of(kept[0]) == std::vector<std::int64_t>{2, 2});
  CHECK(kept[0][0] == std::vector<std::int64_t>{1, 2});
  CHECK(kept[1][0].empty());
  chains[0].floor = 0;
  CHECK(train::size_of(chains, train::cut_with_least_loss(chains, {.size = 3}, 0)) == 0);
}
