// Compresses a dense checkpoint layer by layer: read, factorise, write. Memory holds at most one layer; with
// calibration one per thread, unless they have more than 2,048 inputs. Every finished layer is on the disk, so that an
// interrupted run can continue.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/host/thread_pool.h"
#include "lib/compress/assemble.h"
#include "lib/compress/check/comparison.h"
#include "lib/compress/fit/work.h"
#include "lib/compress/needs.h"
#include "lib/compress/refine/block_outcome.h"
#include "lib/compress/settings.h"
#include "lib/compress/time_needs.h"

namespace comera::compress {

// One requested size of the model. Its number is the index in Tensorizer::sizes() and in LayerJob::sizes.
struct RequestedSize {
  double ratio = 0;                            // 0: the size was requested in another way
  std::string output;                          // folder
  std::uint64_t file_bytes = 0;                // of the file that the run writes; an upper limit for automatic forms
  std::optional<std::uint64_t> counted_bytes;  // the same for the file of Goal::counted
};

// Relative errors of some layers.
struct LayerErrors {
  std::int64_t layers = 0;
  double mean = 0, worst = 0;
};

struct Result {
  std::string source, output;
  double asked_ratio = 0;  // 0: no ratio was requested
  OutputFormat format;     // output and bytes are those of the file that was made from the written folder, if any
  std::vector<LayerOutcome> layers;
  BlockOutcomes blocks;  // refined ones
  // Of a refinement that would pay, but was left out because it takes so long; estimated.
  std::optional<double> refinement_seconds;
  std::uint64_t file_bytes = 0, file_bytes_dense = 0;
  std::int64_t parameters = 0, parameters_dense = 0;  // of all weights of the folder, as `inspect` counts them
  std::optional<std::uint64_t> counted_bytes;         // of the file of Goal::counted
  double seconds = 0;
  io::CopiedFiles files;
  std::optional<MomentsInfo> calibration;
  std::optional<Comparison> cost;  // comparison with the dense model; empty until it is measured

  double ratio() const { return static_cast<double>(file_bytes_dense) / static_cast<double>(file_bytes); }
  bool measures_outputs() const;  // text reached at least one layer that is cut
  // Counts errors of outputs if they are measured, else of weights. Dense layers count with 0.
  LayerErrors errors() const;
  // Counts errors of weights of the layers that are cut and have no output error, if outputs are measured; else no
  // layers.
  LayerErrors unmeasured_errors() const;
};

class Tensorizer {
 public:
  // Opens the model and makes the plans. `moments` may be null. InputError for any error in the model, plan or options.
  Tensorizer(Settings settings, kernels::ThreadPool& pool, std::unique_ptr<InputMoments> moments);
  ~Tensorizer();

  const io::ModelFolder& folder() const { return folder_; }
  const std::vector<LayerJob>& jobs() const { return jobs_; }  // allotted, and after run() stored
  const std::vector<RequestedSize>& sizes() const { return sizes_; }
  const OutputFormat& format() const { return settings_.format; }
  std::uint64_t file_bytes_dense() const { return final_file().dense_bytes(); }
  CalibrationNeeds calibration_needs() const;
  TimeNeeds time_needs() const;  // of run(), and of what has made the plans; takes seconds

  // Writes every folder. Throws Stopped on a signal; the next call continues.
  std::vector<Result> run();

 private:
  void check_input();
  void settle_refinement();
  void require_work() const;
  void make_plans();
  void add_size(double ratio);
  const CountedFile& final_file() const { return settings_.final_file ? *settings_.final_file : *weights_files_; }
  const CountedFile& counted() const { return settings_.goal.counted ? *settings_.goal.counted : final_file(); }
  std::optional<MomentsInfo> calibration() const;
  std::vector<Result> finish(WorkFolder& work, double start);
  Result store(std::size_t size, const std::vector<std::string>& vectors, const std::string& place);

  Settings settings_;
  kernels::ThreadPool& pool_;
  std::unique_ptr<InputMoments> moments_;
  io::ModelFolder folder_;
  std::optional<io::ComeraBlock> block_;       // of a model that already has chains
  std::optional<WeightsFiles> weights_files_;  // once it is known whether blocks are refined
  std::vector<LayerJob> jobs_;
  std::vector<RequestedSize> sizes_;
  double planning_seconds_ = 0;
  std::optional<double> seconds_left_out_;  // of a refinement that would take too long
  std::vector<BlockOutcomes> refined_;      // by size, after the fit
};

}  // namespace comera::compress
