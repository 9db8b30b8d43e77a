// The description of an encoder: sizes, heads, and the form of every weight. The values equal those of a Hugging Face
// config.json.
#pragma once

#include <optional>

#include "kernels/types.h"
#include "models/spec.h"

namespace comera::models {

// The computation of a sentence's vector (sentence-transformers' Pooling and Normalize). The default is the mean
// without normalisation.
struct SentenceRules {
  kernels::Pooling pooling = kernels::Pooling::mean;
  bool normalise = false;
  std::int64_t max_length = 0;  // largest number of tokens in a sentence; 0: not given
};

// Facts that config.json lacks and the names of the weights show. The defaults are those of Hugging Face's library for
// a model without head.
struct StoredNames {
  bool bare = true, pooler = true;
  bool without_transformer = false;  // GPT-2: names without the prefix "transformer."
};

// Families whose files have other names and keys. vit: the blocks of models/vit. RoBERTa-PreLayerNorm is the family
// bert with `pre_norm`.
enum class EncoderFamily : std::uint8_t { bert, roberta, distilbert, mpnet, modernbert, vit };

// What ModernBERT alone has (Warner et al. 2024, arXiv 2412.13663).
struct ModernBert {
  double theta = 160000, near_theta = 10000;  // bases of the rotary angles in layers without and with a window
  std::int64_t reach = 64;                    // keys on each side of a query in layers with a window
  std::vector<bool> windowed;                 // by layer
  bool attention_bias = false, mlp_bias = false, norm_bias = false, head_bias = false;
};

struct EncoderSpec : Spec {
  EncoderSpec() { dropout = attention_dropout = 0.1; }

  std::int64_t types = 2;         // token types; 0: none
  double position_deviation = 1;  // initial deviation of position and type rows / that of word rows; released code: 1
  EncoderFamily family = EncoderFamily::bert;
  bool pre_norm = false;               // pre-LN: RoBERTa-PreLayerNorm, whose family is bert, and ModernBERT
  std::optional<double> head_dropout;  // of the classifier's input; none: `dropout`
  kernels::Pooling classifier_pooling = kernels::Pooling::first;  // mean: ModernBERT
  bool bare = false;       // names without the family's prefix, as in a checkpoint of the model without head
  bool pooler = false;     // embed: the checkpoint has a pooler, which is kept but not used
  SentenceRules sentence;  // embed
  ModernBert modern;       // of the family modernbert
};

inline bool is_modern(const EncoderSpec& spec) { return spec.family == EncoderFamily::modernbert; }
inline bool has_positions(const EncoderSpec& spec) { return !is_modern(spec); }  // a table of them
inline bool norms_have_shifts(const EncoderSpec& spec) { return !is_modern(spec) || spec.modern.norm_bias; }
inline bool head_has_bias(const EncoderSpec& spec) { return !is_modern(spec) || spec.modern.head_bias; }
inline bool has_window(const EncoderSpec& spec, std::int64_t layer) {
  return is_modern(spec) && spec.modern.windowed[static_cast<std::size_t>(layer)];
}
// Pre-LN: block 0 of ModernBERT reads the residual stream, all others a norm of it.
inline bool norms_input(const EncoderSpec& spec, std::int64_t layer) {
  return spec.pre_norm && !(is_modern(spec) && layer == 0);
}

// The position of a text's first token: RoBERTa and MPNet count from pad + 1, so their tables have pad + 1 rows more.
std::int64_t first_position(const EncoderSpec& spec);
// The activation of the layer between token 0 and the classifier.
kernels::Activation head_activation(const EncoderSpec& spec);

// Names of the weights, by family.
struct EncoderNames {
  explicit EncoderNames(const EncoderSpec& spec);
  std::string block(std::int64_t index) const;
  std::string layer(std::int64_t index, const char* part) const;
  const std::string& prefix() const { return root_; }  // prefix of the family, "" if bare

  std::string word, position, type, embedding_norm;
  std::string final_norm;              // pre-LN only
  std::string relative_bias;           // MPNet
  std::string pooler;                  // of a model without head
  std::string head_dense, classifier;  // head_dense "": the classifier reads the token itself (ViT)
  std::string head_norm;               // ModernBERT
  std::string transform, transform_norm, decoder_bias;
  std::string decoder;  // a tied copy of the word table
  const char *query, *key, *value, *attention_output, *up, *down, *middle_norm, *output_norm;
  const char* qkv = nullptr;  // ModernBERT: query, key and value beside each other in one layer
  const char* attention;      // the common part of the names of query, key and value

 private:
  void name_distilbert();
  void name_mpnet();
  void name_modernbert();
  void name_vit();

  std::string root_;
  const char* stack_;  // of the blocks
};

// transformers' name of a regression's only output.
constexpr const char* regression_label = "LABEL_0";

// The same encoder for another task or with other labels. Names follow checkpoints of that kind.
EncoderSpec with_head(const EncoderSpec& spec, Task task, const std::vector<std::string>& labels);

// The linear layers of the blocks.
std::vector<WeightSite> block_sites(const EncoderSpec& spec);
// Every weight that --form applies to: all linear layers except the final classifier, and the word table.
std::vector<WeightSite> weight_sites(const EncoderSpec& spec);

// InputError if sizes are inconsistent: heads that do not divide the width, sizes that are not positive, ...
void check(const EncoderSpec& spec);
// Parts of it: the heads divide the width; a classifier has two labels or more.
void check_heads(const EncoderSpec& spec);
void check_labels(const EncoderSpec& spec);

}  // namespace comera::models
