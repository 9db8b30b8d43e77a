// What an encoder is: sizes, heads, and the form of every weight. The same numbers as a Hugging Face config.json.
#pragma once

#include "models/spec.h"

namespace comera::models {

struct EncoderSpec : Spec {
  EncoderSpec() { dropout = attention_dropout = 0.1; }

  std::int64_t types = 2;         // token types; 0: none
  double position_deviation = 1;  // of position and type rows at the start, in units of the word rows'; 1: the released code's
  bool pre_norm = false;          // false: post-LN, BERT's names; true: pre-LN, RoBERTa-PreLayerNorm's names
};

// Names of the parts, by family.
struct EncoderNames {
  explicit EncoderNames(const EncoderSpec& spec);
  std::string layer(std::int64_t index, const char* part) const;

  std::string word, position, type, embedding_norm;
  std::string final_norm;  // pre-LN
  std::string head_dense, classifier;
  std::string transform, transform_norm, decoder_bias;
  const char *query, *key, *value, *attention_output, *up, *down, *middle_norm, *output_norm;

 private:
  std::string root_;
};

// Every weight that --form applies to: all linear layers but the final classifier, and the word table.
std::vector<WeightSite> weight_sites(const EncoderSpec& spec);

// InputError when sizes contradict each other: heads that do not divide the width, sizes that are not positive, ...
void check(const EncoderSpec& spec);

}  // namespace comera::models
