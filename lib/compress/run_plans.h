// The layers of one or several plans of a model, fitted one by one and kept in the work folder.
#pragma once

#include "lib/compress/tensorize.h"

namespace comera::compress {

struct PlansToRun {
  const io::ModelFolder& folder;
  const std::vector<Candidate>& candidates;
  const std::vector<Planned>& plans;
  InputMoments* moments;  // null: no calibration
  bool sequential;        // calibration follows the compressed prefix
};

// What became of every layer, by plan and candidate. What `work` holds already is not done again. Stopped where a
// signal comes.
std::vector<std::vector<LayerOutcome>> run_plans(const PlansToRun& all, WorkFolder& work);

}  // namespace comera::compress
