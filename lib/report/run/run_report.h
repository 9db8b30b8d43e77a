// Writes the reports of a run: report.json for scripts and report.html for readers.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/report/output/html.h"
#include "lib/report/weights/model_report.h"
#include "lib/train/trainer.h"

namespace comera::report {

struct RunReport {
  std::string verb;    // "pretrain"
  std::string folder;  // of the run
  Facts settings;      // the most important resolved options
  data::Task task = data::Task::classify;
  std::vector<std::string> labels;  // classify: names of the labels
  train::RunResult result;
  std::uint64_t process_peak = 0;  // resident memory, start-up included
  ModelReport model;               // as stored in the folder, with its history
};

// Makes the report from the stored model and metrics of the folder.
RunReport make_run_report(std::string verb, std::string folder, Facts settings, data::Task task,
                          std::vector<std::string> labels, const train::RunResult& result);

Json to_json(const RunReport& report);
std::string to_html(const RunReport& report);

// Writes report.json and report.html, each atomically.
void write_run_report(const RunReport& report, const Folder& folder);

// Planned and measured memory of a report.json.
std::string memory_line(const Json& report);

}  // namespace comera::report
