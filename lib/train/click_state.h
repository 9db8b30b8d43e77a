// Metrics of clicks in the state of a run.
#pragma once

#include "lib/engine/click_metrics.h"
#include "lib/io/json.h"

namespace comera::train {

// An empty object for metrics of no examples. Errors by bootstrap are left out: training does not measure them.
io::Json clicks_json(const engine::ClickMetrics& clicks);
// Throws InputError or JsonError for what is no such text, and for numbers that contradict each other.
engine::ClickMetrics clicks_from(const io::Json& json);

}  // namespace comera::train
