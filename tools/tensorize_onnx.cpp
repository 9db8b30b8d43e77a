#include "tools/tensorize_onnx.h"

#include <exception>

#include "lib/compress/fit/work.h"
#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/files/outputs.h"
#include "lib/core/terminal/log.h"
#include "lib/core/terminal/stop.h"
#include "lib/core/units.h"
#include "lib/export/counted_onnx.h"
#include "lib/io/json_file.h"
#include "lib/io/onnx_files.h"

namespace comera::tools {
namespace {

bool is_report(const std::string& path) {
  try {
    const io::Json json = io::read_json(path, io::largest_report);
    return json.is_object() && json.value("kind", "") == "tensorize";
  } catch (const std::exception&) {
    return false;
  }
}

// The reports are written beside the graph. Reports of an earlier run may be replaced, other files of that name not.
void require_free_reports(const std::string& output) {
  if (is_report(output + ".report.json")) return;
  for (const char* ending : {".report.json", ".report.html"})
    if (path_exists(output + ending))
      fail_input("[tensorize] {}{}: exists already, and is where the report goes; use another name, or remove it first",
                 output, ending);
}

void check_options(const OptionValues& values, const std::string& output, bool several) {
  if (values.has("calibrate"))
    fail_input(
        "[tensorize] --calibrate needs a model folder; an ONNX graph is tensorized weight by weight, leave it out");
  if (values.given("budget-of") && values.text("budget-of") != "onnx")
    fail_input("[tensorize] --budget-of weights: for an ONNX graph the whole file is counted; leave it out");
  if (output.empty()) return;
  if (!several && !output.ends_with(".onnx"))
    fail_input(
        "[tensorize] --output '{}': the output of an ONNX graph is an ONNX graph; name a file that ends in .onnx",
        output);
  if (several && output.ends_with(".onnx"))
    fail_input("[tensorize] --output '{}': each of several sizes gets a graph; name a folder for them", output);
  if (path_exists(output) && (!several || !is_empty_folder(output)))
    fail_input("[tensorize] {}: exists already; name another {}, or remove it first", output,
               several ? "folder" : "file");
  if (several) return;
  io::remove_half_onnx(output);
  io::require_free_data("tensorize", output);
  require_free_reports(output);
}

// Outputs must not overwrite external data files of the graph, which may have any name.
void refuse_outside_data(const OptionValues& values) {
  std::vector<NamedPath> inputs, outputs = named_files(values).outputs;
  std::erase_if(outputs, [](const NamedPath& output) { return !path_exists(output.path); });
  if (outputs.empty()) return;
  for (const std::string& file : io::onnx_data_files(values.positionals()[0]))
    inputs.push_back({"the data of MODEL", file});
  check_outputs(values.table().verb(), inputs, outputs);
}

// Everything that a job has in its work folder: the graph's weights, their chains, the unfinished chains, new graphs.
std::vector<std::string> names_of_work() {
  std::vector<std::string> names{"*.onnx", "*.onnx.data", "chains.partial/"};
  for (const std::string& name : compress::work_names()) names.push_back("chains.partial/" + name);
  for (const char* folder : {"dense", "chains"})
    for (const char* inside : {"", "*/", "*.safetensors", "*.json", "*.html", "source.hash"})
      names.push_back(fmt::format("{}/{}", folder, inside));
  return names;
}

}  // namespace

OnnxJob::OnnxJob(const OptionValues& values, bool only_plans)
    : output_(values.has("output") && !only_plans ? values.text("output") : ""),
      input_(values.positionals()[0]),
      several_(values.list("ratio").size() + values.list("budget").size() > 1) {
  if (!only_plans && output_.empty()) fail_input("[tensorize] --output is missing: name the ONNX file to write");
  while (output_.size() > 1 && output_.ends_with('/')) output_.pop_back();
  check_options(values, output_, several_);
  refuse_outside_data(values);
  open_work();
  try {
    run([&] {
      source_ = std::make_shared<exporting::OnnxSource>(input_, join_path(work_, "dense"), values.flag("again"));
      return 0;
    });
  } catch (...) {
    if (resumed_) resumed_->remove();
    throw;
  }
}

void OnnxJob::open_work() {
  if (!output_.empty()) {
    resumed_ = std::make_unique<WorkPlace>(output_ + ".partial", names_of_work());
    work_ = resumed_->path();
    remove_tree(join_path(work_, "chains"));  // left by a run that was killed while it wrote the graph
    return;
  }
  // For a plan the work folder is beside the graph, where the disk surely has room for its weights.
  passing_ = std::make_unique<AtomicFolder>(input_ + ".plan");
  work_ = passing_->temporary();
}

OnnxJob::~OnnxJob() {
  if (!resumed_ || (!done_ && stop_signal() != 0)) return;
  try {
    resumed_->remove();
  } catch (const std::exception& error) {
    log_warning("{}", error.what());
  }
}

std::string OnnxJob::in_users_words(std::string message) const {
  const std::string dense = join_path(work_, "dense");
  for (const auto& [ours, theirs] :
       {std::pair{join_path(dense, "model.safetensors: tensor "), input_ + ": initialiser "},
        {join_path(dense, "model.safetensors"), input_},
        {dense, input_},
        {join_path(work_, "chains"), output_},
        {work_ + "/", parent_path(output_) + "/"}})
    for (std::size_t at = 0; (at = message.find(ours, at)) != std::string::npos; at += theirs.size())
      message.replace(at, ours.size(), theirs);
  return message;
}

int OnnxJob::run(const std::function<int()>& work) const {
  try {
    return work();
  } catch (const InputError& error) {
    throw InputError(in_users_words(error.what()));
  } catch (const RunError& error) {
    throw RunError(in_users_words(error.what()));
  }
}

void OnnxJob::settle(compress::Settings& settings) {
  settings.model = source_->folder();
  settings.output = join_path(work_, "chains");
  settings.made_for = compress::MadeFor::graph;
  settings.final_file = std::make_shared<exporting::RewrittenGraph>(source_);
  settings.format = {.name = "ONNX file", .weight_ending = "", .folder = false};
  // the folder has no config.json with an architecture
  if (settings.choice.include.empty()) settings.choice.include = {"*"};
  settings.choice.tables = source_->tables();
}

void OnnxJob::finish(std::vector<compress::Result>& results) {
  std::optional<AtomicFolder> all;  // several graphs become visible together
  if (several_) all.emplace(output_);
  for (compress::Result& result : results) {
    const std::string file = several_ ? join_path(output_, base_name(result.output) + ".onnx") : output_,
                      made = join_path(work_, base_name(file));
    const exporting::RewrittenOnnx written = source_->write(result.output, made);
    io::move_onnx(written.files, all ? join_path(all->temporary(), base_name(file)) : file, false);
    result.source = input_;
    result.output = file;
    result.files = {};
    result.cost.emplace().left_out =
        "comera runs no ONNX graphs; tensorize the model's folder with --calibrate, which keeps more of the model at "
        "this size, and export it";
    result.file_bytes = written.bytes;
    result.file_bytes_dense = written.bytes_source;
    log_info("{}: {} weights became chains; {}, {} before", file, written.weights, format_bytes(written.bytes),
             format_bytes(written.bytes_source));
  }
  if (all) all->commit_new();
  if (const auto& left = source_->left_out(); !left.empty())
    log_info("{}: {} constant{} of two and more dimensions stay{} dense, the largest: {}: {}", input_, left.size(),
             left.size() == 1 ? "" : "s", left.size() == 1 ? "s" : "", left[0].name, left[0].why);
  done_ = true;
}

}  // namespace comera::tools
