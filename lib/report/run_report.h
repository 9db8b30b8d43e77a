// The reports of a run: report.json for scripts and report.html for people.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/report/html.h"
#include "lib/report/model_report.h"
#include "lib/train/trainer.h"

namespace comera::report {

struct RunReport {
  std::string verb;    // "pretrain"
  std::string folder;  // of the run
  Facts settings;      // the resolved options that matter
  data::Task task = data::Task::classify;
  std::vector<std::string> labels;  // classify: their names
  train::RunResult result;
  std::uint64_t process_peak = 0;  // resident, start-up included
  ModelReport model;               // as stored in the folder, with its history
};

// Reads the model and the metrics of the folder back.
RunReport make_run_report(std::string verb, std::string folder, Facts settings, data::Task task,
                          std::vector<std::string> labels, const train::RunResult& result);

Json to_json(const RunReport& report);
std::string to_html(const RunReport& report);

// report.json and report.html, each whole or not at all.
void write_run_report(const RunReport& report, const Folder& folder);

// Predicted against measured, of a report.json.
std::string memory_line(const Json& report);

}  // namespace comera::report
