// One layer from its dense weight to the chain that is stored, with what it costs and loses.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/compress/moments.h"
#include "lib/compress/plan.h"
#include "lib/tt/chain.h"

namespace comera::compress {

// The known facts about a layer's inputs; all empty without calibration.
struct Evidence {
  const MomentGroup* inputs = nullptr;  // linear
  std::vector<double> row_weights;      // table: how often each row was looked up, [rows]
  // table: rows that stay as they are, rising: what the chain makes of them costs nothing. Only beside row weights.
  std::vector<std::int32_t> exact_rows = {};
  std::vector<double> judged_row_weights = {};  // table: as row weights, of text that only tells how good the fit is

  bool given() const { return inputs != nullptr || !row_weights.empty(); }
};

// What the layer should be with these inputs: the weight itself, or the one that also makes up for what replaced layers
// before it did to the stream that it adds to.
tt::Matrix target_of(tt::Matrix weight, const MomentGroup& inputs);

// A weight as tensorize sees it, [in x out] or [rows x columns], in double. NaN and infinity are an InputError that
// names the tensor.
tt::Matrix read_weight(const io::ModelFolder& folder, const Candidate& candidate);

// The result of compressing a layer; it is also stored for a run that goes on after a kill.
struct LayerOutcome {
  std::string name;
  bool table = false, bare = false;  // as the candidate
  std::string form = "dense";        // dense, lowrank, tt, ttm
  io::FileShape shape;
  std::optional<io::ChainSpec> chain;  // empty where dense
  std::int64_t parameters = 0, parameters_dense = 0;
  std::uint64_t bytes = 0, bytes_dense = 0;
  double rel_error = 0;                // ||W - Ŵ|| / ||W||, of the numbers as stored
  std::optional<double> output_error;  // where layers before it were replaced, W is target_of()
  std::optional<double>
      optimum;  // the least error that a matrix of that rank can have, of a ttm what every one of its ranks has at
                // least: of the outputs that were fitted where there is calibration, else of the weight
  std::optional<double> error_of_optimum;  // ours, in the same measure
  double ms = 0;
  std::string reason;                   // why it stays dense
  std::string weight_hash, chain_hash;  // of the bytes of the dense tensor, and of those that are stored
};
io::Json to_json(const LayerOutcome& outcome);
LayerOutcome outcome_from(const io::Json& json, const std::string& file);

// Everything that one factorisation knows of a layer: the error at every rank, and the chain of every plan.
class LayerFactors {
 public:
  // `largest_rank`: no plan will ask for more (0: it may). Keeps what `evidence` points to, not copies.
  LayerFactors(const Candidate& candidate, tt::Matrix weight, Evidence evidence, std::int64_t largest_rank);
  ~LayerFactors();
  LayerFactors(const LayerFactors&) = delete;
  LayerFactors& operator=(const LayerFactors&) = delete;

  // [r] is the squared error that the best matrix of rank r leaves, r = 0 .. at least largest_rank; [0] is the squared
  // norm, exact rows in it.
  const std::vector<double>& losses() const;
  tt::Chain fit(const LayerPlan& plan) const;  // not for dense
  tt::Matrix approximation(
      std::int64_t rank) const;  // the best matrix of that rank, as losses() says, exact rows in it
  // Fills errors and optimum of a chain whose numbers are already rounded to what is stored.
  void measure(const tt::Chain& chain, LayerOutcome& outcome) const;
  const tt::Matrix& weight() const { return weight_; }

 private:
  struct Curve;
  const tt::Matrix& target() const {
    return corrected_ ? *corrected_ : weight_;
  }  // what is fitted to inputs that are known
  tt::Chain fit_table(const LayerPlan& plan) const;
  void measure_outputs(const tt::Chain& chain, LayerOutcome& outcome) const;

  const Candidate& candidate_;
  tt::Matrix weight_;
  Evidence evidence_;
  std::optional<tt::Matrix> corrected_;  // target_of(), where replaced layers before this one moved its inputs
  std::unique_ptr<Curve> curve_;
};

// losses() alone, of every rank.
std::vector<double> layer_losses(const Candidate& candidate, tt::Matrix weight, Evidence evidence);

// A chain as a file describes it; `candidate` gives name, shape and orientation.
io::ChainSpec describe(const tt::Chain& chain, const Candidate& candidate);
// Numbers rounded to the type that is stored.
void round_to(tt::Chain& chain, io::StoredType type);
// The chain that a file holds.
tt::Chain load_chain(const io::ModelFolder& folder, const io::ChainSpec& spec, std::optional<double> threshold);
// XXH3 of the tensors of a stored chain, in the order of tensors_of().
std::string hash_chain(const io::SafetensorsFile& file, const io::ChainSpec& spec, io::StoredType type);

}  // namespace comera::compress
