// Factors on a grid, and their place in the menu of a layer.
#include "lib/compress/fit/stored_cores.h"

#include <catch2/catch.hpp>

#include "lib/compress/fit/grid_fit.h"
#include "lib/compress/plan/plan.h"
#include "lib/tt/data_aware.h"
#include "tests/tt/random_matrix.h"

using namespace comera;
using namespace comera::compress;
using test::random_matrix;
using tt::Matrix;

namespace {

constexpr std::int64_t in = 96, out = 160;

Candidate linear() {
  Candidate candidate;
  candidate.name = "up";
  candidate.tensor = "up.weight";
  candidate.shape = {out, in};
  return candidate;
}

LayerPlan pair_plan(std::int64_t rank, std::optional<quant::Grid> cores) {
  LayerPlan plan;
  plan.form = PlannedForm::lowrank;
  plan.layout.gauge = false;
  plan.rank = rank;
  plan.cores = cores;
  return plan;
}

// Singular values that fall by a factor of 1,000, so that the columns of the left factor differ as much.
tt::Chain steep_pair(std::int64_t rank) {
  tt::Pair pair{random_matrix(in, rank, 1), random_matrix(rank, out, 2)};
  for (std::int64_t i = 0; i < in; ++i)
    for (std::int64_t r = 0; r < rank; ++r)
      pair.left(i, r) *= std::pow(1e-3, static_cast<double>(r) / static_cast<double>(rank - 1));
  return tt::chain_of_pair(std::move(pair));
}

double error(const tt::Chain& a, const Matrix& b) {
  return std::sqrt(tt::squared_distance(tt::expand(a), b) / tt::squared_norm(b));
}

MomentGroup group_of(const Matrix& moment) {
  MomentGroup group;
  group.fit.moment = group.held.moment = group.judged.moment = moment;
  return group;
}

}  // namespace

TEST_CASE("stored cores: the bytes are those of the plan, and the numbers those of the bytes") {
  const Candidate candidate = linear();
  for (const auto& cores :
       {std::optional<quant::Grid>(), std::optional(quant::Grid::q8_0), std::optional(quant::Grid::q4_0)}) {
    const io::ChainSpec spec = chain_of(pair_plan(9, cores), candidate);
    tt::Chain chain = steep_pair(9);
    const auto bytes = store_cores(chain, spec, candidate.type);
    const auto wanted = tensors_of(spec, candidate.type);
    std::size_t all = 0;
    for (std::size_t k = 0; k < 2; ++k) {
      CHECK(bytes[k].size() ==
            static_cast<std::size_t>(io::elements_of(wanted[k].shape)) * io::size_of(wanted[k].type));
      all += bytes[k].size();
      std::vector<float> numbers(chain.cores[k].size());
      if (cores)
        quant::decode_line(*cores, bytes[k], numbers);
      else
        io::to_floats(candidate.type, bytes[k], numbers);
      CHECK(std::vector<double>(numbers.begin(), numbers.end()) == chain.cores[k]);
    }
    if (cores) CHECK(all == planned_bytes(pair_plan(9, cores), candidate));
  }
}

TEST_CASE("stored cores: with columns of one size eight bits lose what eight bits of one factor lose, twice") {
  const Candidate candidate = linear();
  const io::ChainSpec eight = chain_of(pair_plan(12, quant::Grid::q8_0), candidate);
  tt::Chain chain = steep_pair(12);
  const Matrix exact = tt::expand(chain);
  balance_columns(chain);
  CHECK(error(chain, exact) < 1e-12);
  store_cores(chain, eight, candidate.type);
  // Steps of the largest number / 127: an error of at most half a step, .29 of it in the mean, for each factor.
  CHECK(error(chain, exact) < 0.012);
  // The small columns of the weight are not lost in the steps of the large ones.
  const tt::Chain first = steep_pair(12);
  Matrix left(in, 1), right(1, out);
  for (std::int64_t i = 0; i < in; ++i) left(i, 0) = first.cores[0][static_cast<std::size_t>(12 * i + 11)];
  for (std::int64_t j = 0; j < out; ++j) right(0, j) = first.cores[1][static_cast<std::size_t>(11 * out + j)];
  const tt::Chain last = tt::chain_of_pair({left, right});
  for (std::int64_t i = 0; i < in; ++i) left(i, 0) = chain.cores[0][static_cast<std::size_t>(12 * i + 11)];
  for (std::int64_t j = 0; j < out; ++j) right(0, j) = chain.cores[1][static_cast<std::size_t>(11 * out + j)];
  CHECK(error(tt::chain_of_pair({left, right}), tt::expand(last)) < 0.012);
}

TEST_CASE("menu: a weight of low rank may take its factors, where they lose less than a grid of as many bytes") {
  const Candidate candidate = linear();
  const Matrix inputs = random_matrix(400, in, 3);
  const Matrix moment = tt::gram(inputs);
  const MomentGroup group = group_of(moment);
  Matrix weight = tt::multiply(random_matrix(in, 12, 4), random_matrix(12, out, 5));
  const Matrix noise = random_matrix(in, out, 6);
  for (std::size_t i = 0; i < weight.values.size(); ++i) weight.values[i] += 0.02 * noise.values[i];
  LayerPlan first;
  first.form = PlannedForm::grid;
  first.cores = quant::Grid::q8_0;
  const std::vector<quant::Grid> grids{quant::Grid::q4_0, quant::Grid::q2_0};
  const auto least = [&](bool factors, PlannedForm form, std::int64_t bytes) {
    double loss = -1;
    for (const GridChoice& choice : grid_menu(candidate, weight, {&group}, first, {grids, true, factors}).choices) {
      if (choice.plan.form != form) continue;
      if (static_cast<std::int64_t>(planned_bytes(choice.plan, candidate)) > bytes) continue;
      if (loss < 0 || choice.loss < loss) loss = choice.loss;
    }
    return loss;
  };
  const auto two_bits = static_cast<std::int64_t>(io::elements_of({out, quant::line_bytes(quant::Grid::q2_0, in)}));
  const double grid = least(true, PlannedForm::grid, two_bits), factors = least(true, PlannedForm::automatic, two_bits);
  CHECK((factors >= 0 && factors < grid / 10));
  CHECK(least(false, PlannedForm::automatic, two_bits) < 0);

  // The predicted loss of the factors is that of the stored ones.
  LayerPlan plan = first;
  plan.form = PlannedForm::automatic;
  plan.rank = 16;
  double predicted = 0;
  for (const GridChoice& choice : grid_menu(candidate, weight, {&group}, first, {grids, true, true}).choices)
    if (choice.plan.form == PlannedForm::automatic && choice.plan.rank == 16) predicted = choice.loss;
  const LayerFactors fitted(candidate, weight, {&group}, 0);
  tt::Chain chain = fitted.fit(plan);
  balance_columns(chain);
  store_cores(chain, chain_of(plan, candidate), candidate.type);
  Matrix lost = tt::difference(weight, tt::expand(chain));
  CHECK(tt::output_norm(lost, moment) < 1.3 * predicted);
}
