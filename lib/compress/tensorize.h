// Compresses a dense checkpoint layer by layer: read, factorise, write. Memory holds at most one layer. Every finished
// layer is on the disk, so that an interrupted run can continue.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/thread_pool.h"
#include "lib/compress/comparison.h"
#include "lib/compress/layer.h"
#include "lib/compress/moments.h"
#include "lib/compress/work.h"

namespace comera::compress {

// Bytes of the whole file if these weights are chains.
using FileBytes = std::function<std::uint64_t(const std::vector<io::ChainSpec>& chains)>;

// Exactly one of the first five is set.
struct Goal {
  std::vector<double> ratios;           // dense / compressed, of the whole file; several: one folder each
  std::optional<std::uint64_t> budget;  // bytes of the file
  std::optional<std::int64_t> rank;
  // Relative error of every layer: of its outputs with calibration, else of its weight.
  std::optional<double> tolerance;
  std::string plan_file;
  // Size of the file to which ratios and budgets apply, if it is not the weights file but the graph that is made from
  // the model.
  FileBytes counted;
  std::size_t counted_element = 0;  // bytes per number in that file; 0: as the weights are stored
};

struct Settings {
  std::string model, output;
  Goal goal;
  PlannedForm form = PlannedForm::automatic;
  std::optional<int> order;  // modes per side of a tt; default 2, with calibration 2 input modes and 1 output mode
  int table_order = 3;       // of ttm
  Choice choice;
  std::vector<LayerRule> rules;
  bool gauge = true;
  bool uniform = false;         // every layer gets the same share of its bytes, in place of water-filling
  bool allow_slower = false;    // allows ranks at which two products take longer than the dense one
  double floor = 0.5;           // every layer gets at least this share of its uniform rank
  bool again = false;           // the model already has chains; they stay as they are
  std::int64_t exact_rows = 0;  // number of exact rows of every table; needs calibration
  bool sequential = true;       // calibration runs with the compressed layers so far and corrects their error
  // The weights are those of an ONNX graph: `model` is a folder that was made from it, and reports refer to the graph.
  bool graph = false;
};

// Memory and disk space that calibration would need for a model.
struct CalibrationNeeds {
  std::uint64_t memory = 0;   // its largest matrix in float, and the moments and factorisation of its widest layer
  std::uint64_t scratch = 0;  // on the disk while it runs: block outputs for the text, and layers as compressed so far
};

struct Planned {
  Plan plan;
  std::string output;                          // folder
  std::uint64_t file_bytes = 0;                // of the weights files of this plan; an upper limit for automatic forms
  std::optional<std::uint64_t> counted_bytes;  // the same for the file of Goal::counted
};

struct Result {
  std::string source, output;
  double asked_ratio = 0;  // 0: no ratio was requested
  bool graph = false;      // see Settings; output and bytes are those of the graph after it is written
  std::vector<LayerOutcome> layers;
  std::uint64_t file_bytes = 0, file_bytes_dense = 0;
  std::optional<std::uint64_t> counted_bytes;  // of the file of Goal::counted
  double seconds = 0;
  io::CopiedFiles files;
  std::optional<MomentsInfo> calibration;
  std::optional<Comparison> cost;  // comparison with the dense model; empty until it is measured

  double ratio() const { return static_cast<double>(file_bytes_dense) / static_cast<double>(file_bytes); }
  double worst_error() const;  // the largest error of a layer: of its outputs if known, else of its weight
};

class Tensorizer {
 public:
  // Opens the model and makes the plans. `moments` may be null. InputError for any error in the model, plan or options.
  Tensorizer(Settings settings, kernels::ThreadPool& pool, std::unique_ptr<InputMoments> moments);
  ~Tensorizer();

  const io::ModelFolder& folder() const { return folder_; }
  const std::vector<Candidate>& candidates() const { return candidates_; }
  const std::vector<Planned>& plans() const { return plans_; }
  bool graph() const { return settings_.graph; }
  // Bytes of the weights files, or of the graph.
  std::uint64_t file_bytes_dense() const { return settings_.graph ? settings_.goal.counted({}) : folder_.bytes(); }
  CalibrationNeeds calibration_needs() const;

  // Writes every folder. Throws Stopped on a signal; the next call continues.
  std::vector<Result> run();

 private:
  struct Work;
  void check_input();
  void require_work() const;
  void make_plans();
  std::optional<MomentsInfo> calibration() const;
  std::vector<Result> finish(WorkFolder& work, double start);

  Settings settings_;
  kernels::ThreadPool& pool_;
  std::unique_ptr<InputMoments> moments_;
  io::ModelFolder folder_;
  std::optional<io::ComeraBlock> block_;  // of a model that already has chains
  std::vector<Candidate> candidates_;
  std::vector<Planned> plans_;
};

}  // namespace comera::compress
