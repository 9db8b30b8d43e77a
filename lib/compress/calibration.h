// Input moments of a model's own forward over calibration text.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/compress/moments.h"
#include "lib/data/format.h"
#include "lib/plan/walk.h"

namespace comera::compress {

struct CalibrationSettings {
  std::string model;               // a folder that models::spec_from_folder() reads
  std::vector<std::string> files;  // text, one sequence per line, or tables; globs
  std::string tokenizer;           // file or folder; "": the model's folder
  std::int64_t tokens = 0;    // at most; a quarter of the sequences is held out; 0: until enough of them are fitted
  std::int64_t length = 128;  // longest sequence
  std::vector<std::string> columns = {};    // of tables, each a sequence per row; none: "text"
  std::optional<data::Format> format = {};  // of all files; none: by their names
  std::string scratch = {};                 // folder for what memory should not hold; "": that of temporary files
};

// Weights are read where they are used, and what blocks give for the text is in a file: in memory are the largest
// matrix, what one batch makes, and the moments of one layer (of those of a block at once where they take no more than
// 1 GiB). InputError: a model, text or tokenizer that cannot be used. A warning where an input has more dimensions than
// a tenth of the fitted tokens.
std::unique_ptr<InputMoments> calibrate(const plan::Machine& machine, const CalibrationSettings& settings);

}  // namespace comera::compress
