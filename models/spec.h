// The common description of all architectures: sizes under the names of a Hugging Face config.json, the task, and the
// form of every weight.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lib/data/loader.h"
#include "lib/layers/linear.h"

namespace comera::models {

using data::Task;
using layers::WeightForm;

// A weight that can have another form. `columns` is the input width of a linear layer. The order in files is [rows,
// columns].
struct WeightSite {
  std::string name;
  std::int64_t rows = 0, columns = 0;
  bool table = false;
  bool conv1d = false;  // the order in files is [columns, rows] (GPT-2's Conv1D)
};

struct Spec {
  std::int64_t vocabulary = 0, hidden = 0, layers = 0, heads = 0, intermediate = 0;
  std::int64_t positions = 512;               // longest sequence
  std::int64_t pad = 0;                       // id of [PAD]
  double epsilon = 1e-12;                     // of the norms
  double dropout = 0, attention_dropout = 0;  // of embeddings, branches and head; of attention probabilities
  Task task = Task::classify;
  std::vector<std::string> labels;          // classify: the labels; regression: the name of the number in id2label
  std::map<std::string, WeightForm> forms;  // all other weights are dense
  // Weights that the file stores on grids. `forms` has them as dense weights, unless run_on_grids() moved them there.
  std::map<std::string, WeightForm> on_grids;
  double threshold = 0.01;  // a rank diagonal's entries above it count; minus infinity: all count
  std::string source;       // text of the original config.json, whose other keys are kept; empty: none

  // Outputs per text of the head on the first token.
  std::int64_t outputs() const { return task == Task::regression ? 1 : static_cast<std::int64_t>(labels.size()); }
  WeightForm form_of(const std::string& name) const;
  layers::LinearSpec linear(const std::string& name, std::int64_t out) const;
};

// InputError if the size is outside [1, most]. `key` is the name in config.json.
void check_size(const char* key, std::int64_t value, std::int64_t most);
// Checks the sizes that every stack of blocks has, and with check_common() those of models of text too.
void check_blocks(const Spec& spec);
void check_common(const Spec& spec);

}  // namespace comera::models
