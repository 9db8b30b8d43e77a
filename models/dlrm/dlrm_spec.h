// The description of a DLRM (Naumov et al. 2019, arXiv 1906.00091): numbers through a bottom MLP, a table per column of
// categories, dot products of all vectors, a top MLP with one logit. Names are those of Meta's implementation:
// bot_l.0, bot_l.2, ... (its list of layers has an activation behind each), emb_l.0, emb_l.1, ..., top_l.0, top_l.2,
// ...
#pragma once

#include "lib/data/clicks/schema.h"
#include "models/spec.h"

namespace comera::models {

struct DlrmSpec : Spec {
  DlrmSpec() {
    task = Task::ctr;
    labels = {"0", "1"};
    positions = 1;
  }

  // `hidden` is N, the width of every vector.
  data::Schema inputs;               // rows and bags of every table
  std::vector<std::int64_t> bottom;  // widths of the bottom MLP's hidden layers; its last layer has N outputs
  std::vector<std::int64_t> top;     // of the top MLP's hidden layers; its last layer has one output

  std::int64_t numbers() const { return std::max<std::int64_t>(1, std::ssize(inputs.dense)); }
  std::int64_t vectors() const { return 1 + std::ssize(inputs.categories); }
};

std::string table_name(std::size_t index);
// The layers of an MLP in order: name, outputs, inputs.
struct MlpLayer {
  std::string name;
  std::int64_t in = 0, out = 0;
};
std::vector<MlpLayer> bottom_layers(const DlrmSpec& spec);
std::vector<MlpLayer> top_layers(const DlrmSpec& spec);

// The standard deviation of a table's entries at the start: that of Meta's uniform numbers in +- 1 / sqrt(rows), but at
// least .01.
double table_deviation(std::int64_t rows);

DlrmSpec with_head(const DlrmSpec& spec, Task task, const std::vector<std::string>& labels);
// Every weight that --form applies to: the tables, and all linear layers but the last.
std::vector<WeightSite> weight_sites(const DlrmSpec& spec);
void check(const DlrmSpec& spec);

}  // namespace comera::models
