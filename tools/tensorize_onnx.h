// tensorize for a graph: its matrices go through a folder, and the chains come back into the graph.
#pragma once

#include <functional>

#include "lib/compress/tensorize.h"
#include "lib/core/folder_lock.h"
#include "lib/export/onnx_rewrite.h"
#include "tools/program.h"

namespace comera::tools {

class OnnxJob {
 public:
  // InputError: options that need a model, an output that is none or exists already. What a run that was killed left
  // behind is used again.
  OnnxJob(const OptionValues& values, bool only_plans);
  // Whatever becomes of it, nothing stays beside the output but for the same command to go on with.
  ~OnnxJob();
  OnnxJob(const OnnxJob&) = delete;
  OnnxJob& operator=(const OnnxJob&) = delete;

  // Calls it; what fails names the files that the user knows, not those of the work in between.
  int run(const std::function<int()>& work) const;
  // Model, output and what is counted.
  void settle(compress::Settings& settings);
  // Folders become graphs; results name them and their bytes.
  void finish(std::vector<compress::Result>& results);

 private:
  void open_work();
  std::string in_users_words(std::string message) const;

  std::string output_, input_;
  std::unique_ptr<WorkPlace> resumed_;     // beside the output
  std::unique_ptr<AtomicFolder> passing_;  // of a plan alone: never anything else's name, and gone in any case
  std::string work_;                       // the path of either
  bool several_ = false, done_ = false;
  std::shared_ptr<exporting::OnnxSource> source_;
};

}  // namespace comera::tools
