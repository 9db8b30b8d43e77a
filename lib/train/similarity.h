// Sentence embeddings: texts to vectors, and how well the cosine of two vectors follows people's judgement.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/data/loader.h"
#include "lib/train/step.h"

namespace comera::train {

struct EmbeddingOptions {
  std::int64_t batch = 32;
  std::int64_t max_length = 128;   // tokens of a text, specials included
  int threads = 1;                 // that tokenise ahead
  std::string task = "embedding";  // what the live line names; "": it names nothing
};

// Row i is the embedding of texts[i], [texts, width]. Texts are batched by their length; neither order nor batch
// changes a row's meaning. Stopped where a signal comes.
std::vector<float> embed(Engine& engine, const std::shared_ptr<const data::Tokenizer>& tokenizer,
                         const std::vector<std::string>& texts, const EmbeddingOptions& options);

struct Similarity {
  double spearman = 0;        // of the cosines against the scores
  double spearman_error = 0;  // standard error by the bootstrap over pairs
  double pearson = 0;
  std::int64_t pairs = 0;
  double seconds = 0;  // of embedding both texts of every pair
};

// `dataset`: task embed, two texts a row, the label a number (larger: more alike). InputError where a score is no
// number.
Similarity evaluate_similarity(Engine& engine, const data::Dataset& dataset,
                               const std::shared_ptr<const data::Tokenizer>& tokenizer, const EmbeddingOptions& options,
                               std::vector<double>* cosines = nullptr);

// Correlation of ranks; equal values share the mean of their ranks. 0 where one side is constant.
double spearman(std::span<const double> x, std::span<const double> y);
double pearson(std::span<const double> x, std::span<const double> y);
// Standard deviation of the rank correlation over `samples` draws of pairs with replacement (Efron 1979, Annals of
// Statistics 7).
double bootstrap_error(std::span<const double> x, std::span<const double> y, int samples, std::uint64_t seed);

}  // namespace comera::train
