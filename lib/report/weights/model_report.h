// Describes a stored model from its headers only: the content of `comera inspect`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/io/tt_format.h"
#include "lib/report/output/html.h"
#include "lib/report/output/json.h"
#include "lib/report/run/run_history.h"

namespace comera::report {

struct Totals {
  std::int64_t parameters = 0, parameters_dense = 0, rank_entries = 0;
  std::uint64_t bytes = 0, bytes_dense = 0;
  std::int64_t on_grids = 0;  // number of weights on grids

  void add(const io::TensorForm& layer);
  // Of parameters; with weights on grids, of bytes.
  double ratio() const {
    if (on_grids > 0) return static_cast<double>(bytes_dense) / static_cast<double>(bytes);
    return parameters ? static_cast<double>(parameters_dense) / static_cast<double>(parameters) : 0;
  }
};

struct ModelReport {
  std::string path;
  std::string architecture;            // "model_type" of config.json; "" without one
  std::uint64_t file_bytes = 0;        // of the weight files, headers included
  std::vector<io::TensorForm> layers;  // one per weight, biases and norms too
  Totals totals;                       // of all weights, also after filter()
  std::optional<RunHistory> history;   // if metrics.jsonl is beside the model
};

// Reads a run folder, a checkpoint, a Hugging Face folder, one .safetensors file or a GGUF file.
ModelReport read_model_report(const std::string& path);

// Keeps the weights whose name matches the pattern. A pattern without wildcards matches any part of a name. Throws
// InputError if none matches.
void filter(ModelReport& report, const std::string& pattern);
// Sorts by a column of layer_table(), like sort_rows().
void sort(ModelReport& report, std::string_view key);

Table layer_table(const ModelReport& report);
Json to_json(const ModelReport& report);
std::string to_html(const ModelReport& report);

// Adds the middle of a page: training curves, ranks per bond, ranks over the steps. Adds nothing without data.
void add_curves_and_ranks(Page& page, const ModelReport& report);

// Compares two models weight by weight, by the name of the dense weight.
Table compare_table(const ModelReport& a, const ModelReport& b);
Json compare_json(const ModelReport& a, const ModelReport& b);
std::string compare_html(const ModelReport& a, const ModelReport& b);

}  // namespace comera::report
