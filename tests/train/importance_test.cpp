#include "lib/train/importance.h"

#include <catch2/catch.hpp>

#include "lib/train/step.h"
#include "tests/train/toy_model.h"

using namespace comera;

namespace {

// |W|_F^2 of a chain whose diagonals are the given ones, by multiplying everything out.
double square_norm(const layers::TensorTrain& train, const std::vector<std::vector<double>>& diagonals) {
  std::vector<double> product{1};  // [rows, r]
  for (std::size_t k = 0; k < train.cores.size(); ++k) {
    const std::int64_t left = train.ranks[k], right = train.ranks[k + 1], size = train.cores[k]->shape.elements() / (left * right);
    const std::int64_t rows = static_cast<std::int64_t>(product.size()) / left;
    std::vector<double> next(static_cast<std::size_t>(rows * size * right));
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t a = 0; a < left; ++a)
        for (std::int64_t i = 0; i < size * right; ++i)
          next[row * size * right + i] += product[row * left + a] * layers::load(train.cores[k]->value, a * size * right + i);
    for (std::size_t i = 0; k < diagonals.size() && i < next.size(); ++i) next[i] *= diagonals[k][i % static_cast<std::size_t>(right)];
    product = next;
  }
  double sum = 0;
  for (double value : product) sum += value * value;
  return sum;
}

}  // namespace

TEST_CASE("the importance of a rank entry is its share of the weight, per parameter") {
  train::EngineOptions options;
  options.training = false;
  train::Engine engine({&kernels::reference_backend(), DType::f64, nullptr}, toy::factory(DType::f64), options);
  engine.weights().allocate();
  engine.weights().initialise(4);
  for (const layers::TensorTrain& train : engine.model().tensor_trains())
    for (const layers::Parameter* diagonal : train.diagonals)
      for (std::int64_t i = 0; i < diagonal->shape.elements(); ++i) layers::store(diagonal->value, i, 1.2 - 0.3 * static_cast<double>(i));
  const std::vector<train::Chain> chains = train::read_chains(engine.weights()), shares = train::importances(engine.weights(), 0.01);
  for (std::size_t c = 0; c < chains.size(); ++c) {
    const layers::TensorTrain& train = engine.model().tensor_trains()[c];
    std::vector<std::vector<double>> masked = chains[c].diagonals;
    for (auto& bond : masked)
      for (double& value : bond) value = value > 0.01 ? value : 0;
    const double whole = square_norm(train, masked);
    for (std::size_t bond = 0; bond < masked.size(); ++bond)
      for (std::size_t j = 0; j < masked[bond].size(); ++j) {
        std::vector<std::vector<double>> alone = masked;
        for (std::size_t i = 0; i < alone[bond].size(); ++i) alone[bond][i] = i == j ? alone[bond][i] : 0;
        const double cost = static_cast<double>(train.ranks[bond] * train.sizes[bond] + train.sizes[bond + 1] * train.ranks[bond + 2]);
        CHECK(shares[c].diagonals[bond][j] == Approx(square_norm(train, alone) / whole / cost).epsilon(1e-10).margin(1e-15));
      }
  }
}
