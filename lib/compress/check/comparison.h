// Compares the outputs of two models on the same tokens, for example before and after compression.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/data/files/format.h"
#include "lib/plan/walk.h"

namespace comera::compress {

struct Result;

struct Comparison {
  struct Cosine {
    double mean = 0, least = 0;
  };
  struct Answers {
    std::int64_t count = 0;    // predicted tokens, or classified texts
    double same_best = 0;      // share of answers for which both models have the same most likely answer
    std::optional<double> kl;  // mean of KL(before || after), in nats
    std::optional<double> perplexity_before, perplexity;
  };

  // The values that a regression predicts.
  struct Scores {
    std::int64_t count = 0;
    double difference = 0;  // root mean square difference, in the unit of the labels
    double spearman = 0;    // rank correlation
  };

  std::string text;  // source of the text
  std::int64_t sequences = 0, tokens = 0;
  std::optional<Cosine> hidden;     // of a token's last hidden states
  std::optional<Cosine> embedding;  // of a text's embeddings
  // Rank correlation between the cosines of all pairs of texts in the two models: measures if similar texts stay
  // similar. Of more than 256 texts, 256 that are spread evenly over all.
  std::optional<double> order;
  std::optional<Answers> answers;
  std::optional<Scores> scores;
  bool words = false;    // answers are tokens
  std::string left_out;  // the reason why nothing was measured; then all other fields are empty
};

// A line of a text file is one sequence. A text of more than `tokens` tokens is thinned evenly. Without files the
// built-in sample is used.
struct ComparisonText {
  std::vector<std::string> files;
  std::string tokenizer;      // file or folder; "": the model's folder
  std::int64_t length = 128;  // tokens of the longest sequence
  std::int64_t tokens = 0;    // 0: as many as take a few seconds, at least one sequence
  // The files are those of calibration, and this many of their tokens were read (0: enough); only judging sequences
  // count.
  std::int64_t calibration_tokens = 0;
  bool calibration = false;
  std::vector<std::string> columns = {};    // of tables, one text per row; empty: "text"
  bool chat = false;                        // rows are conversations, by the template beside the tokenizer
  std::optional<data::Format> format = {};  // of all files; empty: from their names
  // A PEFT LoRA folder that is merged into the model `after`, or into the model that was tensorized; "": none.
  std::string adapter = {};
};

// Compares two folders that models::spec_from_folder() can read. Matrices are read when they are used; chains are in
// memory. InputError: a model, text or tokenizer that cannot be used, different tokenizers. Ends early and sets
// `left_out` if a signal requests a stop.
Comparison compare_models(const plan::Machine& machine, const std::string& before, const std::string& after,
                          const ComparisonText& text);

// Fills `cost` of every result of tensorizing the folder `model`. Memory holds the largest matrix and the activations
// of one batch, for any size of model. Never throws: if something cannot be measured, `left_out` holds the reason.
void measure_cost(const plan::Machine& machine, const std::string& model, const ComparisonText& text,
                  std::vector<Result>& results);

}  // namespace comera::compress
