// Accumulates over batches how much the outputs of two models differ.
#pragma once

#include <span>
#include <vector>

#include "lib/compress/check/comparison.h"

namespace comera::compress {

// The outputs of a model for one batch. Outputs that the model does not have are empty.
struct Given {
  std::vector<float> hidden;        // [tokens, width], without padding
  std::vector<double> embedding;    // [sequences, N]
  std::vector<double> logits;       // [answers, N]
  std::vector<std::int32_t> best;   // [answers], for models without logits
  double loss = 0;                  // summed over answers, for models without logits
  std::vector<double> scores = {};  // [sequences], the values that a regression predicts
};

class Agreement {
 public:
  static constexpr std::size_t most_paired = 256;  // texts; Comparison::order compares all pairs of them

  // `texts`: number of texts in all batches together. Batches may bring them in any order.
  explicit Agreement(std::size_t texts) : texts_(texts) {}

  // `tokens`: number of rows of hidden states. `places` [sequences]: of each text among all, from 0 to `texts` - 1;
  // embeddings have a row for each. `next` [answers]: the next token of each answer, -1 for each answer of a
  // classifier. InputError if the vector sizes of the two models differ.
  void add(const Given& before, const Given& after, std::int64_t tokens, std::span<const std::size_t> places,
           std::span<const std::int32_t> next);
  // Does not fill Comparison::text.
  Comparison result() const;

 private:
  struct Cosines {
    std::int64_t count = 0;
    double sum = 0, least = 1;
    void add(double cosine);
    std::optional<Comparison::Cosine> mean() const;
  };
  bool is_paired(std::size_t place) const;
  void add_answers(const Given& before, const Given& after, std::span<const std::int32_t> next);

  std::size_t texts_;
  std::int64_t sequences_ = 0, tokens_ = 0, answers_ = 0, same_ = 0, words_ = 0;
  Cosines hidden_, embedding_;
  bool has_logits_ = false;
  double kl_ = 0, loss_before_ = 0, loss_ = 0;
  std::size_t width_ = 0;
  std::vector<double> embeddings_before_, embeddings_;  // of the texts that are paired
  std::vector<double> scores_before_, scores_;
};

}  // namespace comera::compress
