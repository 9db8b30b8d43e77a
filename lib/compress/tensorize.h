// A dense checkpoint becomes a smaller one, layer by layer: read, factorise, write. No more than one layer is in
// memory, and every finished layer is on the disk, so that a run that was killed goes on where it was.
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

// Bytes of a whole file when these weights are chains.
using FileBytes = std::function<std::uint64_t(const std::vector<io::ChainSpec>& chains)>;

// Exactly one of the first five is set.
struct Goal {
  std::vector<double> ratios;           // dense / compressed, whole file; several: one folder each
  std::optional<std::uint64_t> budget;  // bytes of the file
  std::optional<std::int64_t> rank;
  std::optional<double>
      tolerance;  // relative error of every layer: of its outputs where there is calibration, else of its weight
  std::string plan_file;
  FileBytes counted;  // the file that ratios and budget count, where it is not the weights file: the graph that becomes
                      // of the model
  std::size_t counted_element = 0;  // bytes of a number in that file; 0: as the weights are stored
};

struct Settings {
  std::string model, output;
  Goal goal;
  PlannedForm form = PlannedForm::automatic;
  std::optional<int> order;  // modes per side of tt; else 2, and with calibration 2 of the inputs and 1 of the outputs
  int table_order = 3;       // of ttm
  Choice choice;
  std::vector<LayerRule> rules;
  bool gauge = true;
  bool uniform = false;         // every layer the same share of its bytes, in place of water-filling
  bool allow_slower = false;    // ranks at which two products take longer than the dense one
  double floor = 0.5;           // no layer gets less than this share of its uniform rank
  bool again = false;           // the model has chains already; they stay as they are
  std::int64_t exact_rows = 0;  // of every table so many of its hottest rows stay as they are; needs calibration
  bool sequential = true;       // calibration follows the compressed prefix, and makes up for it
  bool graph = false;  // the weights are those of an ONNX graph: `model` is a folder that was made of it, and reports
                       // speak of the graph
};

// Bytes that calibration would need for a model.
struct CalibrationNeeds {
  std::uint64_t memory = 0;  // its largest matrix in float, moments and factorisation of its widest layer
  std::uint64_t scratch =
      0;  // on the disk, while it runs: what a block gives for the text, and layers as they are compressed
};

struct Planned {
  Plan plan;
  std::string output;            // folder
  std::uint64_t file_bytes = 0;  // of the weights files that the plan makes; for automatic forms an upper limit
  std::optional<std::uint64_t> counted_bytes;  // the same of the file that Goal::counted is about
};

struct Result {
  std::string source, output;
  double asked_ratio = 0;  // 0: not asked for by ratio
  bool graph = false;      // see Settings; output and bytes are those of the graph once it is written
  std::vector<LayerOutcome> layers;
  std::uint64_t file_bytes = 0, file_bytes_dense = 0;
  std::optional<std::uint64_t> counted_bytes;  // of the file that Goal::counted is about
  double seconds = 0;
  io::CopiedFiles files;
  std::optional<MomentsInfo> calibration;
  std::optional<Comparison> cost;  // against the dense model; empty until it was measured

  double ratio() const { return static_cast<double>(file_bytes_dense) / static_cast<double>(file_bytes); }
  double worst_error() const;  // the largest error of a layer: of its outputs where it is known, else of its weight
};

class Tensorizer {
 public:
  // Opens the model and settles what is compressed how. `moments` may be null. InputError for everything wrong with
  // model, plan or options.
  Tensorizer(Settings settings, kernels::ThreadPool& pool, std::unique_ptr<InputMoments> moments);
  ~Tensorizer();

  const io::ModelFolder& folder() const { return folder_; }
  const std::vector<Candidate>& candidates() const { return candidates_; }
  const std::vector<Planned>& plans() const { return plans_; }
  bool graph() const { return settings_.graph; }
  // Bytes of the weights file, or of the graph.
  std::uint64_t file_bytes_dense() const { return settings_.graph ? settings_.goal.counted({}) : folder_.bytes(); }
  CalibrationNeeds calibration_needs() const;

  // Writes every folder. Stopped where a signal comes; the next call goes on.
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
  std::optional<io::ComeraBlock> block_;  // of a model that has chains already
  std::vector<Candidate> candidates_;
  std::vector<Planned> plans_;
};

}  // namespace comera::compress
