// The settings of a run of tensorize.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/compress/calibration/moments.h"
#include "lib/compress/plan/counted_file.h"

namespace comera::compress {

// Exactly one of the first five is set.
struct Goal {
  std::vector<double> ratios;          // dense / compressed, of the whole file; several: one folder each
  std::vector<std::uint64_t> budgets;  // bytes of the file; several: one folder each
  std::optional<std::int64_t> rank;
  // Relative error of every layer: of its outputs with calibration, else of its weight.
  std::optional<double> tolerance;
  std::string plan_file;
  std::shared_ptr<const CountedFile> counted;  // to which ratios and budgets apply; null: the file that the run writes

  // One for each ratio or budget, in bytes of the counted file. Otherwise the only size has none.
  std::vector<std::optional<std::uint64_t>> size_budgets(std::uint64_t dense_bytes) const;
  bool needs_losses() const { return !rank && plan_file.empty(); }
};

// The format that the result is for. GGUF has no chains, no grids of 2 and 3 bits, and whole blocks alone; ONNX graphs
// store 2 and 3 bits in 4; a folder for transformers (hf) has no chains: weights on grids become dense, their
// corrections an adapter of PEFT. graph: an ONNX graph that is rewritten, whose weights stay floating-point numbers.
enum class MadeFor : std::uint8_t { any, gguf, onnx, hf, graph };

// Training of each block after its layers are fitted (lib/compress/refine).
struct Refinement {
  enum class When : std::uint8_t {
    never,
    where_it_pays,  // with text, if it takes at most `most_seconds`: blocks with ranks or fewer than 4 bits
    always,         // every block with compressed layers
  };
  static constexpr double most_seconds = 90;  // for one size, by refinement_seconds()

  When when = When::never;
  std::int64_t steps = 100;  // of one batch each, at most 2,048 tokens
  // The largest step of a number, relative to the root mean square of its tensor.
  double rate = 1e-2;

  bool on() const { return when != When::never; }
};

struct Settings {
  std::string model, output;
  std::string adapter = {};  // a PEFT LoRA folder that is merged into the model; "": none
  MadeFor made_for = MadeFor::any;
  Goal goal;
  PlannedForm form = PlannedForm::automatic;
  std::vector<quant::Grid> grids;  // weights are stored on one of these, unless a rule gives another form
  int sweeps = 4;                  // passes of coordinate descent over a weight on a grid
  bool corrections = true;         // a budget may give weights on grids low-rank corrections
  bool factors = false;            // and it may give a linear layer low-rank or TT form in place of a grid
  std::optional<int> order;  // modes per side of a tt; default 2, with calibration 2 input modes and 1 output mode
  int table_order = 3;       // of ttm
  Choice choice;
  std::vector<LayerRule> rules;
  io::Reading reading = {};  // of the model, for the `comera` block
  bool gauge = true;
  bool uniform = false;       // every layer gets the same share of its bytes, in place of water-filling
  bool allow_slower = false;  // allows ranks at which two products take longer than the dense one
  double floor = 0.5;         // every layer gets at least this share of its uniform rank
  bool again = false;         // the model already has chains; they stay as they are
  // Number of exact rows of every table; needs calibration. Nothing: as many as pay beside `grids` and a size, else 0.
  std::optional<std::int64_t> exact_rows;
  bool sequential = true;  // calibration runs with the compressed layers so far and corrects their error
  Refinement refinement;   // with `sequential`
  // The file that is made from the written folder, and that reports refer to. Null: the weights files of the folder.
  std::shared_ptr<const CountedFile> final_file;
  OutputFormat format;  // of that file
};

// The data that measuring and allotting read.
struct Request {
  const Settings& settings;
  const io::ModelFolder& folder;
  InputMoments* moments;       // null: no calibration
  const CountedFile& counted;  // to which ratios and budgets apply

  bool calibrated() const { return moments != nullptr; }
};

}  // namespace comera::compress
