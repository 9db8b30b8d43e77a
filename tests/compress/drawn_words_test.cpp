#include "lib/compress/calibration/drawn_words.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

using namespace comera;
using namespace comera::compress;

namespace {

constexpr std::int64_t tokens = 300, columns = 12, words = 50;

template <class T>
std::vector<T> draws(std::int64_t count, double deviation, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, deviation);
  std::vector<T> numbers(static_cast<std::size_t>(count));
  for (T& number : numbers) number = static_cast<T>(normal(random));
  return numbers;
}

std::vector<double> distribution_of(const double* hidden, const std::vector<double>& table) {
  std::vector<double> p(words);
  double sum = 0;
  for (std::size_t v = 0; v < p.size(); ++v) {
    double logit = 0;
    for (std::size_t j = 0; j < columns; ++j) logit += hidden[j] * table[v * columns + j];
    sum += p[v] = std::exp(logit);
  }
  for (double& one : p) one /= sum;
  return p;
}

// The mean of KL(p || q) over tokens, by its definition.
double divergence_of(const std::vector<double>& hidden, const std::vector<double>& table,
                     const std::vector<double>& other_hidden, const std::vector<double>& other_table) {
  double sum = 0;
  for (std::size_t t = 0; t < tokens; ++t) {
    const std::vector<double> p = distribution_of(hidden.data() + t * columns, table),
                              q = distribution_of(other_hidden.data() + t * columns, other_table);
    for (std::size_t v = 0; v < p.size(); ++v) sum += p[v] * std::log(p[v] / q[v]);
  }
  return sum / tokens;
}

std::vector<double> moved(std::vector<double> numbers, double by, unsigned seed) {
  const std::vector<double> steps = draws<double>(std::ssize(numbers), by, seed);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] += steps[i];
  return numbers;
}

}  // namespace

TEST_CASE("drawn words: the divergence is that of the distributions, for other hidden states and for another table") {
  const std::vector<double> hidden = draws<double>(tokens * columns, 1, 1);
  const std::vector<float> table = draws<float>(words * columns, 0.5, 2);
  const std::vector<double> own(table.begin(), table.end());
  const DrawnWords drawn(hidden, table, columns);
  CHECK(drawn.divergence(hidden) == 0);
  CHECK(drawn.divergence(hidden, own) == 0);
  const std::vector<double> other_hidden = moved(hidden, 0.05, 3), other_table = moved(own, 0.02, 4);
  // 300 tokens with 16 words each: the deviation of a variance from 16 draws is about a third of it.
  const double of_hidden = divergence_of(hidden, own, other_hidden, own);
  CHECK(drawn.divergence(other_hidden) == Approx(of_hidden).epsilon(0.1));
  const double of_both = divergence_of(hidden, own, other_hidden, other_table);
  CHECK(of_both > 1.3 * of_hidden);
  CHECK(drawn.divergence(other_hidden, other_table) == Approx(of_both).epsilon(0.1));
}

TEST_CASE("drawn words: a change that all logits of a token share is none") {
  const std::vector<double> hidden = draws<double>(tokens * columns, 1, 5);
  const std::vector<float> table = draws<float>(words * columns, 0.5, 6);
  std::vector<double> shifted(table.begin(), table.end());
  for (std::size_t i = 0; i < shifted.size(); ++i) shifted[i] += 0.3 * static_cast<double>(i % columns);
  CHECK(DrawnWords(hidden, table, columns).divergence(hidden, shifted) < 1e-12);
}
