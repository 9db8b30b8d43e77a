#include "lib/compress/calibration/drawn_words.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/philox.h"
#include "lib/core/error.h"
#include "lib/core/terminal/stop.h"

namespace comera::compress {
namespace {

constexpr std::int64_t tokens_at_once = 128, words_at_once = 4096;

using Uniforms = std::array<double, DrawnWords::per_token>;

// Numbers in [0, 1), rising.
Uniforms uniforms_of(std::int64_t token) {
  Uniforms numbers{};
  const kernels::PhiloxKey key = kernels::step_key(0x776f726473u, 0);
  for (std::size_t i = 0; i < numbers.size(); i += 4) {
    const kernels::PhiloxBlock random =
        kernels::philox4x32_10({{static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(token),
                                 static_cast<std::uint32_t>(token >> 32), 0}},
                               key);
    for (std::size_t k = 0; k < 4; ++k) numbers[i + k] = static_cast<double>(random.word[k]) * 0x1p-32;
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// Words with the probabilities of softmax(logits): where the running sum passes each of the numbers.
void draw_words(std::span<const float> logits, const Uniforms& numbers, std::int32_t* words) {
  const float most = *std::max_element(logits.begin(), logits.end());
  double whole = 0;
  for (const float logit : logits) whole += std::exp(static_cast<double>(logit - most));
  double sum = 0;
  std::size_t drawn = 0;
  for (std::size_t v = 0; v < logits.size() && drawn < numbers.size(); ++v) {
    sum += std::exp(static_cast<double>(logits[v] - most));
    while (drawn < numbers.size() && numbers[drawn] * whole < sum) words[drawn++] = static_cast<std::int32_t>(v);
  }
  std::fill(words + drawn, words + numbers.size(), static_cast<std::int32_t>(logits.size()) - 1);  // sums are rounded
}

tt::FloatMatrix rows_of(std::span<const double> numbers, std::int64_t first, std::int64_t count, std::int64_t columns) {
  const auto begin = numbers.begin() + first * columns;
  return {count, columns, std::vector<float>(begin, begin + count * columns)};
}

template <class T>
tt::FloatMatrix distinct_rows(std::span<const T> table, std::span<const std::int32_t> words, std::int64_t columns) {
  tt::FloatMatrix rows(std::ssize(words), columns);
  for (std::int64_t i = 0; i < rows.rows; ++i)
    std::copy_n(table.begin() + words[static_cast<std::size_t>(i)] * columns, columns, rows.row(i));
  return rows;
}

double logit_of(const double* hidden, const float* row, std::int64_t columns) {
  double sum = 0;
  for (std::int64_t j = 0; j < columns; ++j) sum += hidden[j] * static_cast<double>(row[j]);
  return sum;
}

}  // namespace

DrawnWords::DrawnWords(std::span<const double> hidden, std::span<const float> table, std::int64_t columns)
    : columns_(columns), tokens_(std::ssize(hidden) / columns) {
  draw(hidden, table);
  distinct_ = words_;
  std::sort(distinct_.begin(), distinct_.end());
  distinct_.erase(std::unique(distinct_.begin(), distinct_.end()), distinct_.end());
  rows_ = distinct_rows(table, distinct_, columns_);
  for (const std::int32_t word : words_)
    places_.push_back(
        static_cast<std::int32_t>(std::lower_bound(distinct_.begin(), distinct_.end(), word) - distinct_.begin()));
  for (std::size_t i = 0; i < words_.size(); ++i)
    logits_.push_back(
        logit_of(hidden.data() + static_cast<std::int64_t>(i) / per_token * columns_, rows_.row(places_[i]), columns_));
}

// All logits of a few tokens at a time.
void DrawnWords::draw(std::span<const double> hidden, std::span<const float> table) {
  const std::int64_t words = std::ssize(table) / columns_;
  words_.resize(static_cast<std::size_t>(tokens_ * per_token));
  for (std::int64_t first = 0; first < tokens_; first += tokens_at_once) {
    check_stop();
    const tt::FloatMatrix some = rows_of(hidden, first, std::min(tokens_at_once, tokens_ - first), columns_);
    tt::FloatMatrix logits(some.rows, words);
    for (std::int64_t word = 0; word < words; word += words_at_once) {
      const std::int64_t count = std::min(words_at_once, words - word);
      const auto begin = table.begin() + word * columns_;
      tt::FloatMatrix part(some.rows, count);
      tt::multiply_nt_into(1, some, {count, columns_, std::vector<float>(begin, begin + count * columns_)}, 0, part);
      for (std::int64_t t = 0; t < some.rows; ++t) std::copy_n(part.row(t), count, logits.row(t) + word);
    }
    tt::each_alone(some.rows, [&](std::int64_t t) {
      draw_words({logits.row(t), static_cast<std::size_t>(words)}, uniforms_of(first + t),
                 words_.data() + (first + t) * per_token);
    });
  }
}

double DrawnWords::divergence(std::span<const double> hidden) const { return divergence(hidden, rows_); }

double DrawnWords::divergence(std::span<const double> hidden, std::span<const double> table) const {
  return divergence(hidden, distinct_rows(table, distinct_, columns_));
}

double DrawnWords::divergence(std::span<const double> hidden, const tt::FloatMatrix& rows) const {
  COMERA_CHECK(std::ssize(hidden) == tokens_ * columns_);
  std::vector<double> variances(static_cast<std::size_t>(tokens_));
  tt::each_alone(tokens_, [&](std::int64_t t) {
    double sum = 0, squares = 0;
    for (std::int64_t k = t * per_token; k < (t + 1) * per_token; ++k) {
      const auto at = static_cast<std::size_t>(k);
      const double change = logit_of(hidden.data() + t * columns_, rows.row(places_[at]), columns_) - logits_[at];
      sum += change, squares += change * change;
    }
    variances[static_cast<std::size_t>(t)] = (squares - sum * sum / per_token) / (per_token - 1);
  });
  double all = 0;
  for (const double variance : variances) all += variance;
  return all / (2 * static_cast<double>(tokens_));
}

}  // namespace comera::compress
