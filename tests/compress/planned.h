// Plans of layers in one line.
#pragma once

#include "lib/compress/plan/plan.h"

namespace comera::compress {

inline LayerPlan planned(const char* name, PlannedForm form, const tt::Sizes& in, const tt::Sizes& out,
                         std::int64_t rank, bool gauge = true, const char* reason = "", std::int64_t exact_rows = 0) {
  LayerPlan plan;
  plan.name = name;
  plan.form = form;
  plan.rank = rank;
  plan.reason = reason;
  set_modes(plan, in, out);
  plan.layout.gauge = gauge;
  plan.layout.exact_rows = exact_rows;
  return plan;
}

}  // namespace comera::compress
