// Compares the answers of two models that read the same tokens, for example before and after compression.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/data/format.h"
#include "lib/plan/walk.h"

namespace comera::compress {

struct Result;

struct Comparison {
  struct Cosine {
    double mean = 0, least = 0;
  };
  struct Answers {
    std::int64_t count = 0;    // of predicted words, or of texts that were classified
    double same_best = 0;      // share in which both hold the same answer for the likeliest
    std::optional<double> kl;  // mean of KL(before || after), in nats
    std::optional<double> perplexity_before, perplexity;
  };

  // The numbers that a regression predicts.
  struct Scores {
    std::int64_t count = 0;
    double difference = 0;  // root of the mean square, in the unit of the labels
    double spearman = 0;    // rank correlation
  };

  std::string text;  // where it is from
  std::int64_t sequences = 0, tokens = 0;
  std::optional<Cosine> hidden;     // of a token's last hidden states
  std::optional<Cosine> embedding;  // of a text's embeddings
  std::optional<double>
      order;  // rank correlation of the cosines of all pairs of texts: whether what was alike still is
  std::optional<Answers> answers;
  std::optional<Scores> scores;
  bool words = false;    // answers are words
  std::string left_out;  // why nothing was measured; the rest is empty then
};

// A line of a text file is one sequence; more than `tokens` are thinned evenly. Without files the built-in sample is
// used.
struct ComparisonText {
  std::vector<std::string> files;
  std::string tokenizer;      // file or folder; "": the model's folder
  std::int64_t length = 128;  // tokens of the longest sequence
  std::int64_t tokens = 0;    // 0: as many as take seconds, a sequence at least
  std::int64_t calibration_tokens =
      0;  // files are those of calibration, of which so many tokens were read (0: enough); the part that judges counts
  bool calibration = false;
  std::vector<std::string> columns = {};    // of tables, each a text per row; none: "text"
  std::optional<data::Format> format = {};  // of all files; none: by their names
};

// Two folders that models::spec_from_folder() reads. Matrices are read where they are used, chains are in memory.
// InputError: a model, text or tokenizer that cannot be used, tokenizers that differ. Ends early, with `left_out`,
// where a signal asks to stop.
Comparison compare_models(const plan::Machine& machine, const std::string& before, const std::string& after,
                          const ComparisonText& text);

// Fills `cost` of every result of tensorizing the folder `model`. In memory are the largest matrix and what a batch
// makes, whatever the model's size. Nothing fails: what cannot be measured says why.
void measure_cost(const plan::Machine& machine, const std::string& model, const ComparisonText& text,
                  std::vector<Result>& results);

}  // namespace comera::compress
