// One weight on its way through tensorize: from its discovery to its place in the output folders. A model is one vector
// of jobs. Each stage is a function that takes the jobs and fills the fields of its stage:
//   found     find_jobs (here)                the candidate
//   planned   plan_layers (planning.h)        form, modes and fixed ranks, by options and rules
//   measured  measure_layers (measuring.h)    loss curve, and effect on the model's output
//   allotted  allot_size (allotting.h)        the plan at one requested size; read_plan_file (plan_file.h) as well
//   fitted    fit_layers (fitting.h)          the outcome at every size; the chain is in the work folder
//   stored    assemble (assemble.h)           the tensors are in the output folder of the size
// A layer that a rule keeps dense is not measured. Layers of a plan file are not measured either.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/compress/fit/layer.h"
#include "lib/tt/allocate.h"

namespace comera::compress {

// A layer at one requested size of the model.
struct LayerAtSize {
  LayerPlan plan;
  std::optional<LayerOutcome> outcome = {};
  std::string file = {};  // in the work folder; holds the tensors of the chain

  bool dense() const { return plan.form == PlannedForm::keep_dense; }
};

struct LayerJob {
  std::size_t number = 0;  // place in the vector of jobs; part of the names of files in the work folder
  Candidate candidate;
  // Before ranks are allotted; rank 0: no rule sets the rank. With a plan file that of the file.
  std::optional<LayerPlan> first = {};
  std::optional<tt::LossCurve> curve = {};
  // Of a layer on a grid: its forms, by bytes. Entry r of the curve belongs to menu[r - 1] in place of rank r.
  std::vector<LayerPlan> menu = {};
  // The relative change of the model's output per relative loss of the layer. Nothing without calibration.
  std::optional<double> effect = {};
  std::vector<LayerAtSize> sizes = {};  // one per requested size of the model

  // True if the layer is fitted to its inputs: every linear layer, and the decoder of words on a grid.
  bool reads_inputs() const;
  // True if it is, or may become, numbers on a grid.
  bool on_grid() const;
  bool ruled_dense() const { return first && first->form == PlannedForm::keep_dense; }
  // The chain at this size: as fitted, else as planned. Nothing if the layer stays dense.
  std::optional<io::ChainSpec> chain(std::size_t size) const;
};

// A job for every candidate, in the order of find_candidates(), with its errors.
std::vector<LayerJob> find_jobs(const io::ModelFolder& folder, const Choice& choice);

std::vector<io::ChainSpec> chains_at(const std::vector<LayerJob>& jobs, std::size_t size);
std::vector<LayerOutcome> outcomes_at(const std::vector<LayerJob>& jobs, std::size_t size);  // every layer is fitted
bool any_chain(const std::vector<LayerJob>& jobs, std::size_t size);

}  // namespace comera::compress
