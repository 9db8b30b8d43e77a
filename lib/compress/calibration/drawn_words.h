// Words drawn from the next-word distributions of a decoder, to measure the divergence of these distributions when its
// hidden states or its decoder of words change.
//
// Up to terms of third order in the change d of a token's logits, KL(p || q) = Var_p(d) / 2. The variance over a few
// words drawn from p is an unbiased estimate. The logits of all words are computed only once, to draw from them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/tt/matrix.h"

namespace comera::compress {

class DrawnWords {
 public:
  static constexpr std::int64_t per_token = 16;

  // hidden [tokens x columns] of the model itself, row major; table [words x columns], whose rows give the logits.
  DrawnWords(std::span<const double> hidden, std::span<const float> table, std::int64_t columns);

  // The mean over tokens of Var_p(d) / 2, in nats, for these hidden states and the model's own table.
  double divergence(std::span<const double> hidden) const;
  // The same for another table of the same shape.
  double divergence(std::span<const double> hidden, std::span<const double> table) const;

 private:
  void draw(std::span<const double> hidden, std::span<const float> table);
  double divergence(std::span<const double> hidden, const tt::FloatMatrix& rows) const;

  std::int64_t columns_, tokens_;
  std::vector<std::int32_t> words_;     // [tokens x per_token]
  std::vector<std::int32_t> distinct_;  // of them, rising
  std::vector<std::int32_t> places_;    // [tokens x per_token], in `distinct_`
  tt::FloatMatrix rows_;                // of the table, [distinct x columns]
  std::vector<double> logits_;          // [tokens x per_token], of the model itself
};

}  // namespace comera::compress
