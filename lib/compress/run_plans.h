// Fits the layers of one or several plans of a model one by one and stores the results in the work folder.
#pragma once

#include "lib/compress/tensorize.h"

namespace comera::compress {

struct PlansToRun {
  const io::ModelFolder& folder;
  const std::vector<Candidate>& candidates;
  const std::vector<Planned>& plans;
  InputMoments* moments;  // null: no calibration
  bool sequential;        // calibration runs with the compressed layers so far
};

// The outcome of every layer, by plan and candidate. Skips layers that `work` already holds. Throws Stopped on a
// signal.
std::vector<std::vector<LayerOutcome>> run_plans(const PlansToRun& all, WorkFolder& work);

}  // namespace comera::compress
