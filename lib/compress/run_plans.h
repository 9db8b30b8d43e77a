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
  const Progress& progress;
};

// What became of every layer, by plan and candidate; empty where a signal asked to stop. What `work` holds already is not done again.
std::vector<std::vector<LayerOutcome>> run_plans(const PlansToRun& all, WorkFolder& work);

}  // namespace comera::compress
