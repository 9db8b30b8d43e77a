// The description of an encoder: sizes, heads, and the form of every weight. The same numbers as a Hugging Face
// config.json.
#pragma once

#include "kernels/pooling.h"
#include "models/spec.h"

namespace comera::models {

// The rule that makes one vector of a sentence (sentence-transformers' Pooling and Normalize); by default the mean, not
// scaled.
struct SentenceRules {
  kernels::Pooling pooling = kernels::Pooling::mean;
  bool normalise = false;
  std::int64_t max_length = 0;  // tokens of a sentence, 0: not said
};

// Facts that the names of the weights add to config.json; the defaults are those of Hugging Face's library for a model
// without head.
struct StoredNames {
  bool bare = true, pooler = true;
};

struct EncoderSpec : Spec {
  EncoderSpec() { dropout = attention_dropout = 0.1; }

  std::int64_t types = 2;  // token types; 0: none
  double position_deviation =
      1;                   // of position and type rows at the start, in units of the word rows'; 1: the released code's
  bool pre_norm = false;   // false: post-LN, BERT's names; true: pre-LN, RoBERTa-PreLayerNorm's names
  bool bare = false;       // names without the family's prefix: a checkpoint of the model without head
  bool pooler = false;     // embed: the checkpoint has a pooler, which goes along unused
  SentenceRules sentence;  // embed
};

// Names of the parts, by family.
struct EncoderNames {
  explicit EncoderNames(const EncoderSpec& spec);
  std::string layer(std::int64_t index, const char* part) const;
  const std::string& prefix() const { return root_; }  // of the family, "" where bare

  std::string word, position, type, embedding_norm;
  std::string final_norm;  // pre-LN
  std::string pooler;      // of a model without head
  std::string head_dense, classifier;
  std::string transform, transform_norm, decoder_bias;
  const char *query, *key, *value, *attention_output, *up, *down, *middle_norm, *output_norm;

 private:
  std::string root_;
};

// transformers' name of the one output of a regression.
constexpr const char* regression_label = "LABEL_0";

// The same encoder for another task, or with other labels; names as checkpoints of that kind have them.
EncoderSpec with_head(const EncoderSpec& spec, Task task, const std::vector<std::string>& labels);

// Every weight that --form applies to: all linear layers but the final classifier, and the word table.
std::vector<WeightSite> weight_sites(const EncoderSpec& spec);

// InputError when sizes contradict each other: heads that do not divide the width, sizes that are not positive, ...
void check(const EncoderSpec& spec);

}  // namespace comera::models
