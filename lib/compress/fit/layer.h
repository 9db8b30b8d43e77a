// Compresses one layer from its dense weight to the stored chain, and measures size and errors.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/compress/calibration/moments.h"
#include "lib/compress/plan/plan.h"
#include "lib/tt/chain.h"
#include "lib/tt/output_errors.h"

namespace comera::compress {

// Inputs or columns; above it the full spectrum of a layer takes longer than its fit.
constexpr std::int64_t widest_spectrum = 2048;

// Known statistics of a layer's inputs. All fields are empty without calibration.
struct Evidence {
  const MomentGroup* inputs = nullptr;  // of linear layers, and of decoders of words on a grid
  // Of a word table that also decodes: the divergence of the model's next words with these numbers in its place.
  std::function<std::optional<double>(const tt::Matrix& table)> divergence = {};
  std::vector<double> row_weights = {};  // tables only: look-ups of each row, [rows]
  // Tables only: indices of exact rows, rising. The chain's error in these rows does not count. Requires row_weights.
  std::vector<std::int32_t> exact_rows = {};
  std::vector<double> judged_row_weights = {};  // tables only: as row_weights, from text that only judges the fit
  // True for a weight whose block is trained on its outputs after the fit (lib/compress/refine). Empty: no block is.
  std::function<bool(const LayerPlan& plan)> trained_after = {};

  bool given() const { return inputs != nullptr || !row_weights.empty(); }
};

// The weight that the fit should approximate: the dense weight, or one that also corrects the error that replaced
// earlier layers caused in the residual stream to which this layer adds.
tt::Matrix target_of(const tt::Matrix& weight, const MomentGroup& inputs);

// Reads a weight in double as [in x out] or [rows x columns]. InputError with the tensor's name for NaN and infinity.
tt::Matrix read_weight(const io::ModelFolder& folder, const Candidate& candidate);

// The result of compressing a layer. It is also stored, so that an interrupted run can continue.
struct LayerOutcome {
  std::string name;
  bool table = false, bare = false;  // as in Candidate
  std::string form = "dense";        // dense, lowrank, tt, ttm
  io::FileShape shape;
  std::optional<io::ChainSpec> chain;  // empty if dense
  std::int64_t parameters = 0, parameters_dense = 0;
  std::uint64_t bytes = 0, bytes_dense = 0;
  double rel_error = 0;                // ||W - Ŵ|| / ||W|| of the numbers as stored
  std::optional<double> output_error;  // if earlier layers were replaced, W is target_of()
  // tt::OutputErrors::direction of the same outputs. Empty for tables of look-ups.
  std::optional<double> direction_error;
  // The smallest possible error of a matrix of this rank, or for a ttm a lower bound for its ranks. Measured on the
  // fitted outputs with calibration, else on the weight.
  std::optional<double> optimum;
  std::optional<double> error_of_optimum;  // error of the chain in the measure of `optimum`
  double ms = 0;
  std::string reason;                   // the reason why it stays dense
  std::string weight_hash, chain_hash;  // of the bytes of the dense tensor, and of the stored bytes
};
void set_output_errors(LayerOutcome& outcome, const tt::OutputErrors& errors);
io::Json to_json(const LayerOutcome& outcome);
LayerOutcome outcome_from(const io::Json& json, const std::string& file);

// One factorisation of a layer. It gives the error at every rank, and the chain of every plan.
class LayerFactors {
 public:
  // `largest_rank`: the largest rank that any plan uses; 0: no limit. Keeps the pointers in `evidence`; does not copy
  // the data.
  LayerFactors(const Candidate& candidate, tt::Matrix weight, Evidence evidence, std::int64_t largest_rank);
  ~LayerFactors();
  LayerFactors(const LayerFactors&) = delete;
  LayerFactors& operator=(const LayerFactors&) = delete;

  // losses()[r] is the squared error of the best matrix of rank r, for r = 0 up to at least largest_rank. losses()[0]
  // is the squared norm, exact rows included.
  const std::vector<double>& losses() const;
  tt::Chain fit(const LayerPlan& plan) const;  // not for dense
  tt::Matrix approximation(
      std::int64_t rank) const;  // the best matrix of this rank, with the error losses()[rank]; exact rows included
  // Fills errors and optimum. The numbers of `chain` must already be rounded to the stored type.
  void measure(const tt::Chain& chain, LayerOutcome& outcome) const;
  const tt::Matrix& weight() const { return *weight_; }

 private:
  struct Curve;
  const tt::Matrix& target() const { return *target_.get(); }  // of fits to known inputs
  tt::Chain fit_table(const LayerPlan& plan) const;
  void measure_outputs(const tt::Chain& chain, LayerOutcome& outcome) const;

  const Candidate& candidate_;
  Evidence evidence_;
  std::shared_ptr<const tt::Matrix> weight_;
  tt::KeptMatrix target_;  // in memory: target_of() if replaced earlier layers changed the inputs, else the weight
  std::unique_ptr<Curve> curve_;
};

// Only losses(), for every rank.
std::vector<double> layer_losses(const Candidate& candidate, tt::Matrix weight, Evidence evidence);

// Describes a chain for the file. `candidate` gives name, shape and orientation.
io::ChainSpec describe(const tt::Chain& chain, const Candidate& candidate);
// The rows `ids`, which rise, become exact rows of the chain of a table.
void set_exact_rows(tt::Chain& chain, const tt::Matrix& table, const std::vector<std::int32_t>& ids);
// XXH3 of the tensors of a stored chain, in the order of tensors_of().
std::string hash_chain(const io::ModelFolder& folder, const io::ChainSpec& spec, io::StoredType type);

}  // namespace comera::compress
