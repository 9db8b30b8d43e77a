// tensorize for an ONNX graph: stores its matrices in a folder, compresses them, and writes the chains into a new
// graph.
#pragma once

#include <functional>

#include "lib/compress/tensorize.h"
#include "lib/core/files/folder_lock.h"
#include "lib/export/rewrite/onnx_rewrite.h"
#include "tools/program.h"

namespace comera::tools {

class OnnxJob {
 public:
  // Throws an InputError for options that need a model folder, and for an output with a wrong name or that exists
  // already. Reuses files that a killed run left.
  OnnxJob(const OptionValues& values, bool only_plans);
  // Removes the work folder. It stays only after a signal, so that the same command can resume.
  ~OnnxJob();
  OnnxJob(const OnnxJob&) = delete;
  OnnxJob& operator=(const OnnxJob&) = delete;

  // Runs `work`. Errors name the user's files instead of the files in the work folder.
  int run(const std::function<int()>& work) const;
  // Sets the model, the output and the final file of the settings.
  void settle(compress::Settings& settings);
  // Converts the written folders to graphs, and sets their names and bytes in the results.
  void finish(std::vector<compress::Result>& results);

 private:
  void open_work();
  std::string in_users_words(std::string message) const;

  std::string output_, input_;
  std::unique_ptr<WorkPlace> resumed_;     // beside the output
  std::unique_ptr<AtomicFolder> passing_;  // for a plan only: a name of its own, always removed
  std::string work_;                       // path of one of the two
  bool several_ = false, done_ = false;
  std::shared_ptr<exporting::OnnxSource> source_;
};

}  // namespace comera::tools
