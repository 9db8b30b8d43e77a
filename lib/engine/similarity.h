// Sentence embeddings: converts texts to vectors, and measures how well cosines of vectors agree with human scores.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/data/loader.h"
#include "lib/engine/engine.h"

namespace comera::engine {

struct EmbeddingOptions {
  std::int64_t batch = 32;
  std::int64_t max_length = 128;   // tokens of a text, special tokens included
  std::string prompt = {};         // put before every text
  int threads = 1;                 // for tokenisation in advance
  std::string task = "embedding";  // name on the live line; "": no live line
};

// Row i is the embedding of texts[i], [texts, width]. Texts are batched by their length. Order and batch do not change
// the meaning of a row. Throws Stopped on a signal.
std::vector<float> embed(Engine& engine, const std::shared_ptr<const data::Tokenizer>& tokenizer,
                         const std::vector<std::string>& texts, const EmbeddingOptions& options);

struct Similarity {
  double spearman = 0;        // of the cosines and the scores
  double spearman_error = 0;  // standard error by the bootstrap over pairs
  double pearson = 0;
  std::int64_t pairs = 0;
  double seconds = 0;  // for the embeddings of both texts of every pair
};

// `dataset`: task embed, two texts per row; the label is a number (larger: more similar). Throws InputError if a score
// is not a number.
Similarity evaluate_similarity(Engine& engine, const data::TextDataset& dataset,
                               const std::shared_ptr<const data::Tokenizer>& tokenizer, const EmbeddingOptions& options,
                               std::vector<double>* cosines = nullptr);

// Rank correlation. Equal values share the mean of their ranks. 0 if one side is constant, NaN if
// a value is NaN.
double spearman(std::span<const double> x, std::span<const double> y);
double pearson(std::span<const double> x, std::span<const double> y);
// Standard deviation of the rank correlation over `samples` bootstrap samples of pairs, drawn with replacement (Efron
// 1979, Annals of Statistics 7).
double bootstrap_error(std::span<const double> x, std::span<const double> y, int samples, std::uint64_t seed);

}  // namespace comera::engine
