// What an encoder is: sizes, heads, and the form of every weight. The same numbers as a Hugging Face config.json.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lib/data/loader.h"
#include "lib/layers/model.h"

namespace comera::models {

using data::Task;
using layers::Form;

// The form of one weight, named without ".weight". Modes and ranks as in lib/tt/modes.h; empty for dense weights.
struct WeightForm {
  Form form = Form::dense;
  std::vector<std::int64_t> modes, ranks, initial_ranks;
};

// A weight that may take another form: `columns` is what a linear layer reads; file order is [rows, columns].
struct WeightSite {
  std::string name;
  std::int64_t rows = 0, columns = 0;
  bool table = false;
};

struct EncoderSpec {
  std::int64_t vocabulary = 0, hidden = 0, layers = 0, heads = 0, intermediate = 0;
  std::int64_t positions = 512;  // longest sequence
  std::int64_t types = 2;        // token types; 0: none
  std::int64_t pad = 0;          // id of [PAD]
  double epsilon = 1e-12;
  double dropout = 0.1, attention_dropout = 0.1;
  double position_deviation = 1;  // of position and type rows at the start, in units of the word rows'; 1: the released code's
  bool pre_norm = false;          // false: post-LN, BERT's names; true: pre-LN, RoBERTa-PreLayerNorm's names
  Task task = Task::classify;
  std::vector<std::string> labels;          // classify
  std::map<std::string, WeightForm> forms;  // weights that are not named here are dense

  WeightForm form_of(const std::string& name) const;
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
