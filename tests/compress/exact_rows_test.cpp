#include "lib/compress/plan/exact_rows.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "lib/compress/fit/grid_fit.h"
#include "lib/compress/fit/stored_cores.h"
#include "lib/core/error.h"
#include "tests/compress/planned.h"

using namespace comera;
using namespace comera::compress;
using Catch::Matchers::Contains;

namespace {

constexpr std::int64_t rows = 60, columns = 12;

Candidate words() { return {"words", "words.weight", true, false, io::StoredType::F32, {rows, columns}}; }

tt::Matrix random_table() {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  tt::Matrix table(rows, columns);
  for (double& value : table.values) value = normal(random);
  return table;
}

// Three rows are looked up far more often than the others.
std::vector<double> counts() {
  std::vector<double> weights(static_cast<std::size_t>(rows), 2);
  weights[7] = 900, weights[41] = 500, weights[3] = 700;
  return weights;
}

double squared_distance(const tt::Matrix& a, const tt::Matrix& b, std::int64_t row) {
  double sum = 0;
  for (std::int64_t j = 0; j < columns; ++j) sum += (a(row, j) - b(row, j)) * (a(row, j) - b(row, j));
  return sum;
}

// Returns fixed look-up counts as the evidence of the text.
class Counted final : public InputMoments {
 public:
  explicit Counted(std::vector<double> weights) : weights_(std::move(weights)) {}
  MomentsInfo info() const override { return {}; }
  std::vector<double> row_weights(const std::string& table) override {
    return table == "words" ? weights_ : std::vector<double>();
  }
  std::vector<double> judged_row_weights(const std::string& table) override { return row_weights(table); }
  void visit_together(const Visit&, const std::function<void(std::span<const MomentGroup>)>&) override {}
  void replace(const std::string&, const tt::Matrix&, std::size_t) override {}
  void replace(const std::string&, const tt::Pair&, std::size_t) override {}
  void replace_vector(const std::string&, std::span<const float>, std::size_t) override {}
  std::optional<double> effect(const std::string&, const tt::Matrix&) override { return std::nullopt; }
  void restore() override {}

 private:
  std::vector<double> weights_;
};

}  // namespace

TEST_CASE("exact rows: the rows with the largest weights in rising order, the first of equal ones") {
  CHECK(most_frequent_rows(counts(), 3) == std::vector<std::int32_t>{3, 7, 41});
  CHECK(most_frequent_rows(counts(), 2) == std::vector<std::int32_t>{3, 7});
  CHECK(most_frequent_rows(counts(), 5) == std::vector<std::int32_t>{0, 1, 3, 7, 41});
}

TEST_CASE("exact rows: no more than the text uses, and only with counts from text") {
  std::vector<double> weights(static_cast<std::size_t>(rows), 1);  // counts start at one
  weights[5] = 3, weights[9] = 2;
  Counted moments(weights);
  std::vector<LayerPlan> plans{planned("up", PlannedForm::lowrank, {}, {}, 3),
                               planned("words", PlannedForm::lowrank, {}, {}, 3, true, "", 10)};
  settle_exact_rows({plans.data(), plans.data() + 1}, &moments);
  CHECK(plans[1].layout.exact_rows == 2);
  LayerPlan other = plans[1];
  other.name = "others";
  CHECK_THROWS_WITH(settle_exact_rows({&other}, &moments),
                    Contains("how often each of its rows is used") && Contains("others=exact:0"));
  CHECK_THROWS_WITH(settle_exact_rows({&other}, nullptr), Contains("--calibrate"));
  // A number for all tables is for those with counts.
  other.exact_of_all = true;
  CHECK_THROWS_WITH(settle_exact_rows({&other}, &moments), Contains("how often each of its rows is used"));
  settle_exact_rows({&plans[1], &other}, &moments);
  CHECK(plans[1].layout.exact_rows == 2);
  CHECK(other.layout.exact_rows == 0);
  settle_exact_rows({&other}, nullptr);
}

TEST_CASE("exact rows: stored bit for bit, and the chain fits the other rows better") {
  const tt::Matrix table = random_table();
  Counted moments(counts());
  for (const PlannedForm form : {PlannedForm::lowrank, PlannedForm::ttm}) {
    LayerPlan plan = planned("words", form, {10, 6}, {4, 3}, 3);
    tt::Matrix fitted[2];
    LayerOutcome outcomes[2];
    for (const bool exact : {false, true}) {
      plan.layout.exact_rows = exact ? 3 : 0;
      const LayerFactors factors(words(), table, table_evidence(&moments, words(), plan.layout.exact_rows), 0);
      const tt::Chain chain = factors.fit(plan);
      CHECK(chain.exact_ids.size() == static_cast<std::size_t>(plan.layout.exact_rows));
      CHECK(static_cast<std::uint64_t>(tt::stored_bytes(chain, {1, 4})) == planned_bytes(plan, words()));
      factors.measure(chain, outcomes[exact]);
      fitted[exact] = tt::expand(chain);
      CHECK(outcomes[exact].rel_error == Approx(tt::relative_error(table, fitted[exact])).epsilon(1e-12));
      if (form == PlannedForm::lowrank) {
        CHECK(*outcomes[exact].error_of_optimum == Approx(*outcomes[exact].optimum).epsilon(1e-9));
        CHECK(tt::relative_error(factors.approximation(3), fitted[exact]) < 1e-12);
      }
    }
    double rest[2] = {};
    for (std::int64_t i = 0; i < rows; ++i) {
      const bool exact = i == 3 || i == 7 || i == 41;
      if (exact) CHECK(squared_distance(table, fitted[1], i) == 0);
      for (int which = 0; which < 2 && !exact; ++which) rest[which] += squared_distance(table, fitted[which], i);
    }
    CHECK(rest[1] < rest[0]);
    CHECK(*outcomes[1].output_error < *outcomes[0].output_error);
  }
}

TEST_CASE("exact rows: a table on a grid may have those that the text uses, below a quarter of its rows") {
  LayerPlan plan = planned("words", PlannedForm::grid, {}, {}, 0);
  plan.exact_of_all = true;
  std::vector<double> weights(20000, 2);
  CHECK(exact_row_choices(plan, weights) == std::vector<std::int64_t>{0, 256, 1024, 4096});
  std::fill(weights.begin() + 1500, weights.end(), 1);  // rows that the text does not use
  CHECK(exact_row_choices(plan, weights) == std::vector<std::int64_t>{0, 256, 1024});
  weights.resize(4096);
  CHECK(exact_row_choices(plan, weights) == std::vector<std::int64_t>{0, 256});
  CHECK(exact_row_choices(plan, {}) == std::vector<std::int64_t>{0});
  plan.layout.exact_rows = 7;
  CHECK(exact_row_choices(plan, weights) == std::vector<std::int64_t>{7});
  plan.layout.exact_rows = 0, plan.exact_of_all = false;  // a rule
  CHECK(exact_row_choices(plan, weights) == std::vector<std::int64_t>{0});
}

TEST_CASE("exact rows: the menu of a table on grids counts their bytes and what they save") {
  const tt::Matrix table = random_table();
  Counted moments(counts());
  const Evidence evidence = table_evidence(&moments, words(), 0);
  const std::vector<std::int32_t> hot{3, 7, 41};
  const GridMenu menu = grid_menu(words(), table, evidence, planned("words", PlannedForm::grid, {}, {}, 0),
                                  {{quant::Grid::q4_0, quant::Grid::q2_0}, false, false, {0, 3}});
  REQUIRE(menu.choices.size() == 4);
  REQUIRE(menu.probed.size() == 2);  // two bits, without and with exact rows
  CHECK(menu.probed[0].exact_rows.empty());
  CHECK(menu.probed[1].exact_rows == hot);
  for (const std::size_t at : {0, 2}) {
    const GridChoice &plain = menu.choices[at], &exact = menu.choices[at + 1];
    CHECK((plain.plan.layout.exact_rows == 0 && exact.plan.layout.exact_rows == 3));
    CHECK(exact.plan.grid == plain.plan.grid);
    CHECK(planned_bytes(exact.plan, words()) == planned_bytes(plain.plan, words()) + 3 * (4 + 2 * columns));
    const tt::Matrix fitted = quant::expand_table(quant::round_table(table, plain.plan.grid));
    double all = 0, others = 0;
    for (std::int32_t r = 0; r < rows; ++r) {
      const double lost = counts()[static_cast<std::size_t>(r)] * squared_distance(table, fitted, r);
      all += lost;
      if (std::ranges::find(hot, r) == hot.end()) others += lost;
    }
    CHECK(plain.loss == Approx(all).epsilon(1e-12));
    CHECK(exact.loss == Approx(others).epsilon(1e-12));
  }
}

TEST_CASE("exact rows: beside a grid they are stored in half precision and certified so") {
  const tt::Matrix table = random_table();
  Counted moments(counts());
  LayerPlan plan = planned("words", PlannedForm::grid, {}, {}, 0, true, "", 3);
  plan.grid = quant::Grid::q2_0;
  const Evidence evidence = table_evidence(&moments, words(), 3);
  GridFit fit = fit_on_grid(words(), table, evidence, plan);
  CHECK(fit.correction.exact_ids == std::vector<std::int32_t>{3, 7, 41});
  store_exact_rows(fit.correction, io::StoredType::F16);
  tt::Matrix fitted = quant::expand_table(fit.base);
  tt::put_exact_rows(fit.correction, fitted);
  for (const std::int32_t row : {3, 7, 41}) {
    double norm = 0;
    for (std::int64_t j = 0; j < columns; ++j) norm += table(row, j) * table(row, j);
    CHECK(squared_distance(table, fitted, row) < 0x1p-22 * norm);
    CHECK(squared_distance(table, fitted, row) > 0);
  }
  LayerOutcome outcome;
  measure_fit(words(), table, table, fit, evidence, outcome);
  CHECK(outcome.rel_error == Approx(tt::relative_error(table, fitted)).epsilon(1e-12));
  double lost = 0, whole = 0;
  const tt::Matrix zero(rows, columns);
  for (std::int64_t r = 0; r < rows; ++r) {
    const double weight = counts()[static_cast<std::size_t>(r)];
    lost += weight * squared_distance(table, fitted, r), whole += weight * squared_distance(table, zero, r);
  }
  CHECK(*outcome.output_error == Approx(std::sqrt(lost / whole)).epsilon(1e-9));
}
