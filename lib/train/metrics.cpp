#include "lib/train/metrics.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <csignal>

#include "lib/core/files/regular_file.h"
#include "lib/core/process.h"
#include "lib/core/terminal/log.h"
#include "lib/core/terminal/stop.h"
#include "lib/engine/weights_file.h"
#include "lib/train/removal.h"

namespace comera::train {
namespace {

io::Json memory_json(const engine::MemoryTable& table) {
  io::Json json;
  for (int category = 0; category < plan::categories; ++category)
    json[plan::name_of(static_cast<plan::Category>(category))] = table.bytes[category];
  json["peak"] = table.peak;
  return json;
}

// JSON has no NaN.
io::Json finite_or_null(double value) { return std::isfinite(value) ? io::Json(value) : io::Json(); }

}  // namespace

std::uint64_t whole_lines(const Folder& folder, const std::string& name, std::uint64_t keep) {
  std::uint64_t read = 0, whole = 0;
  const auto take = [&](std::string_view block) {
    block = block.substr(0, std::min<std::uint64_t>(block.size(), keep - read));
    if (const std::size_t end = block.rfind('\n'); end != std::string_view::npos) whole = read + end + 1;
    read += block.size();
  };
  const std::string path = folder.path_of(name);
  if (folder.kind(name) != EntryKind::none) read_blocks(folder.open_file(name), path, take);
  if (whole < keep)
    log_warning("{}: {} of the {} bytes that were written before are there; the lost lines are not restored", path,
                whole, keep);
  return whole;
}

layers::RankTable active_ranks(const Engine& engine) {
  const std::vector<ChainDiagonals> chains = read_diagonals(const_cast<Engine&>(engine).weights());
  return ranks_of(engine.model(), above(chains, engine.model().threshold()));
}

Metrics::Metrics(const Folder& folder, std::uint64_t keep) : file_(folder, "metrics.jsonl", keep) {}

void Metrics::add_sizes(io::Json& line, Engine& engine) {
  if (bytes_ == 0) bytes_ = weights_file_bytes(engine.model(), engine::FileTypes::stored);
  line["parameters"] = engine.model().parameters().count();
  line["rank_entries"] = engine.model().parameters().rank_entries();
  line["bytes"] = bytes_;
}

// Writes for the last step: S^ of the penalty, the true size S in core entries, and the objective that the step pushed.
void Metrics::add_objective(io::Json& line, const kernels::RankState& state) {
  const bool late = state.late != 0, pushes_size = state.pushes_size != 0;
  line["objective"] = {{"surrogate", state.surrogate},
                       {"size", state.size},
                       {"pushes", late                    ? (pushes_size ? "size" : "loss")
                                  : state.size_weight > 0 ? "both"
                                                          : "loss"},
                       {"loss_weight", state.loss_weight},
                       {"size_weight", state.size_weight}};
}

void Metrics::add_ranks(io::Json& line, Engine& engine) {
  if (engine.model().chains().empty()) return;
  io::Json ranks = active_ranks(engine);  // not by operator[], which compares a name with all before it
  std::string text = ranks.dump();
  if (text == last_ranks_) return;
  line["ranks"] = std::move(ranks);
  last_ranks_ = std::move(text);
}

void Metrics::step(const StepReport& report, Engine& engine) {
  io::Json line;
  line["step"] = report.step;
  line["time"] = report.seconds;
  line["split"] = "train";
  line["loss"] = report.loss;
  if (report.has_accuracy) line["accuracy"] = report.accuracy;
  line["learning_rate"] = report.learning_rate;
  line["gradient_norm"] = report.gradient_norm;
  if (report.has_ranks) line["rank"] = report.mean_rank;
  line["ratio"] = report.ratio;
  add_sizes(line, engine);
  if (report.has_ranks) add_objective(line, engine.state().rank);
  line["step_ms"] = report.step_ms;
  line["tokens_per_second"] = report.tokens_per_second;
  line["peak_bytes"] = report.peak_bytes;
  line["memory"] = memory_json(engine.memory_table());
  add_ranks(line, engine);
  append(line);
}

void Metrics::evaluation(std::int64_t step, double seconds, const Evaluation& evaluation, Engine& engine) {
  io::Json line;
  line["step"] = step;
  line["time"] = seconds;
  line["split"] = "dev";
  io::Json& dev = line["dev"] = {{"loss", evaluation.loss}};
  if (engine::has_accuracy(evaluation)) dev["accuracy"] = evaluation.accuracy;
  if (evaluation.scores.count > 0)
    dev["rmse"] = evaluation.scores.rmse(), dev["pearson"] = evaluation.scores.pearson,
    dev["spearman"] = evaluation.scores.spearman;
  if (evaluation.clicks.count > 0)
    dev["auc"] = finite_or_null(evaluation.clicks.auc), dev["nce"] = finite_or_null(evaluation.clicks.nce);
  dev["counted"] = evaluation.counted;
  dev["seconds"] = evaluation.seconds;
  add_sizes(line, engine);
  append(line);
}

void Metrics::event(std::int64_t step, double seconds, const std::string& what) {
  const io::Json line{{"step", step}, {"time", seconds}, {"event", what}};
  append(line);
}

void Metrics::removal(std::int64_t step, double seconds, const RankAdaptation::Event& event) {
  io::Json line{{"step", step},           {"time", seconds}, {"event", "removal"}, {"removed", event.removed()},
                {"fallen", event.fallen}, {"cut", event.cut}};
  if (event.fallen > 0) line["fallen_by_bond"] = event.fallen_by_bond;
  if (event.cut > 0) line["cut_by_bond"] = event.cut_by_bond;
  append(line);
}

// Skips a line that would exceed the limit of a file's size (ulimit -f). The run ends with a checkpoint after this
// step.
void Metrics::append(const io::Json& line) {
  const std::string text = line.dump() + "\n";
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && file_.size() + text.size() > limit.rlim_cur) {
    std::raise(SIGXFSZ);
    if (stop_signal() != 0)
      return log_warning("metrics.jsonl: the line of step {} would pass the limit of a file's size",
                         line["step"].dump());
  }
  file_.append(text);
}

std::uint64_t Metrics::sync() {
  file_.sync();
  return file_.size();
}

}  // namespace comera::train
