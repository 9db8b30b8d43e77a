#include "lib/train/metrics.h"

#include "lib/train/removal.h"
#include "lib/train/weights_file.h"

namespace comera::train {
namespace {

nlohmann::ordered_json memory_json(const MemoryTable& table) {
  nlohmann::ordered_json json;
  for (int kind = 0; kind < plan::kinds; ++kind) json[plan::name_of(static_cast<plan::Kind>(kind))] = table.bytes[kind];
  json["peak"] = table.peak;
  return json;
}

}  // namespace

layers::RankTable active_ranks(const Engine& engine) {
  const std::vector<Chain> chains = read_chains(const_cast<Engine&>(engine).weights());
  return ranks_of(engine.model(), above(chains, engine.model().threshold()));
}

Metrics::Metrics(const std::string& path, std::uint64_t keep) : file_(path, keep) {}

void Metrics::add_sizes(nlohmann::ordered_json& line, Engine& engine) {
  if (bytes_ == 0) bytes_ = weights_file_bytes(engine.model(), FileTypes::stored);
  line["parameters"] = engine.model().parameters().count();
  line["rank_entries"] = engine.model().parameters().rank_entries();
  line["bytes"] = bytes_;
}

void Metrics::add_ranks(nlohmann::ordered_json& line, Engine& engine) {
  if (engine.model().tensor_trains().empty()) return;
  nlohmann::ordered_json ranks;
  for (const auto& [name, table] : active_ranks(engine)) ranks[name] = table;
  std::string text = ranks.dump();
  if (text == last_ranks_) return;
  line["ranks"] = std::move(ranks);
  last_ranks_ = std::move(text);
}

void Metrics::step(const StepReport& report, Engine& engine) {
  nlohmann::ordered_json line;
  line["step"] = report.step;
  line["time"] = report.seconds;
  line["split"] = "train";
  line["loss"] = report.loss;
  line["accuracy"] = report.accuracy;
  line["learning_rate"] = report.learning_rate;
  line["gradient_norm"] = report.gradient_norm;
  if (report.has_ranks) line["rank"] = report.mean_rank;
  line["ratio"] = report.ratio;
  add_sizes(line, engine);
  line["step_ms"] = report.step_ms;
  line["tokens_per_second"] = report.tokens_per_second;
  line["peak_bytes"] = report.peak_bytes;
  line["memory"] = memory_json(engine.memory_table());
  add_ranks(line, engine);
  file_.append(line.dump() + "\n");
}

void Metrics::evaluation(std::int64_t step, double seconds, const Evaluation& evaluation, Engine& engine) {
  nlohmann::ordered_json line;
  line["step"] = step;
  line["time"] = seconds;
  line["split"] = "dev";
  line["dev"] = {{"loss", evaluation.loss}, {"accuracy", evaluation.accuracy}, {"counted", evaluation.counted}, {"seconds", evaluation.seconds}};
  add_sizes(line, engine);
  file_.append(line.dump() + "\n");
}

void Metrics::event(std::int64_t step, double seconds, const std::string& what, std::int64_t removed) {
  nlohmann::ordered_json line{{"step", step}, {"time", seconds}, {"event", what}};
  if (removed > 0) line["removed"] = removed;
  file_.append(line.dump() + "\n");
}

std::uint64_t Metrics::sync() {
  file_.sync();
  return file_.size();
}

}  // namespace comera::train
