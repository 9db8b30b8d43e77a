// What --explain and --fit add to the plan of a run: FLOPs by part of the step, the largest tensors at the peak, and
// other choices of the options that decide the memory.
#pragma once

#include "lib/report/run/run_report.h"
#include "lib/train/fit/fit.h"

namespace comera::report {

Table work_table(const engine::MemoryTable& memory);                   // FLOPs of forward, backward and update
Table tensors_table(const std::vector<plan::PlannedTensor>& tensors);  // name, shape, type, kind, bytes
Table policies_table(const std::vector<train::PlannedChoice>& rows, const train::MemoryChoice& current);
// One row per form and policy up to the chosen form: the largest micro-batch that fits, else the smallest one.
Table fit_table(const train::Fit& fit);

struct Explanation {
  Facts assumed;  // numbers that data would give
  std::vector<plan::PlannedTensor> tensors;
  std::vector<train::PlannedChoice> policies;
  train::MemoryChoice current;
};
void add_to(Json& json, const engine::MemoryTable& memory, const Explanation& explanation);
void add_to(Json& json, const train::Fit& fit);
std::string to_text(const train::Fit& fit);  // the chosen row in one line
// Lines below a table of choices: the reasons of those that are not possible, and the meaning of the FLOPs.
std::string notes(const std::vector<train::PlannedChoice>& rows);

}  // namespace comera::report
