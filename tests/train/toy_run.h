// A run of the toy model, for tests of runs and their folders.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <sstream>

#include "lib/core/files/file.h"
#include "lib/core/terminal/log.h"
#include "lib/train/trainer.h"
#include "lib/tuning/path_choices.h"
#include "tests/engine/toy_model.h"

namespace toy {

// A folder that is removed after the test. It is in memory if possible, for tests with a thousand syncs.
struct TestFolder {
  TestFolder() {
    set_up_log({LogLevel::warning});
    const std::filesystem::path memory = "/dev/shm";
    const bool in_memory = access(memory.c_str(), W_OK) == 0;
    path = (in_memory ? memory : std::filesystem::temp_directory_path()) /
           fmt::format("comera-train-{}-{}", getpid(), next++);
    std::filesystem::create_directory(path);
  }
  ~TestFolder() { std::filesystem::remove_all(path); }
  std::string operator/(const char* name) const { return (path / name).string(); }
  std::filesystem::path path;
  static inline int next = 0;
};

inline std::shared_ptr<const data::Tokenizer> tokenizer() {
  std::string vocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (char letter = 'a'; letter < 'a' + 19; ++letter) vocab += std::string(1, letter) + "\n";
  return data::parse_wordpiece(vocab, "vocab.txt");
}

// The toy model reads only the first token, [CLS], so it learns the shares of the labels.
inline std::shared_ptr<const data::Dataset> dataset(int rows, int first) {
  std::vector<std::vector<std::string>> texts;
  std::vector<std::int32_t> labels;
  for (int i = first; i < first + rows; ++i) {
    texts.push_back({fmt::format("{} {}", static_cast<char>('a' + i % 19), static_cast<char>('a' + i * 7 % 19))});
    labels.push_back(i % 5 == 0 ? i % 3 : 1);
  }
  return data::Dataset::from_rows(data_spec(), tokenizer(), texts, labels, {"x", "y", "z"});
}

inline train::TrainOptions options() {
  train::TrainOptions options;
  options.batch = 8;
  options.accumulate = 2;
  options.length = 16;
  options.steps = 24;
  options.seed = 9;
  options.rate = options.rate_cores = 5e-3;
  options.rate_ranks = 5e-2;
  options.optimizer.adamw.weight_decay = 0.01;
  options.schedule = {train::ScheduleShape::cosine, 3, 0, 0.1};
  options.ranks.prune_every = 5;
  options.ranks.target = train::TargetKind::fraction;
  options.ranks.target_value = 0.5;
  options.eval_every = Period{Period::Unit::steps, 7};
  options.save_every = Period{Period::Unit::steps, 6};
  options.log_every = 4;
  return options;
}

inline plan::PathTable paths_of(const std::string& run) {
  return train::recipe_paths(read_file(join_path(run, "recipe.toml")), "recipe.toml");
}

struct Job {
  train::TrainOptions options = toy::options();
  plan::Machine machine{&kernels::reference_backend(), DType::f32, nullptr};
  std::shared_ptr<const data::Dataset> data = dataset(100, 0), dev = dataset(30, 1000);
  bool resume = false, skip_damaged = false, dense = false;
  std::optional<plan::Path> faster = {};  // fastest path of the clock; none: nothing is measured
  std::string repeated = {};              // folder of a run whose paths are used
  std::function<void(const train::StepReport&, bool)> on_step = {};
  std::function<std::string(std::size_t, std::size_t)> cheaper = {};
  std::function<void(engine::Weights&)> start = {};

  train::RunResult run(const std::string& path) const {
    train::RunFolder folder(path, resume ? train::RunFolder::Open::resume : train::RunFolder::Open::fresh);
    tuning::PathChoices paths(repeated.empty() ? plan::PathTable() : paths_of(repeated),
                              [this](plan::Path path, const auto&) { return path == faster ? 1.0 : 2.0; });
    plan::Machine choosing = machine;
    if (faster) choosing.paths = &paths;
    train::TrainInputs inputs{
        choosing, factory(machine.dtype, {8, dense, 0.1, false}), data, dev, "seed = 9\n", resume, skip_damaged};
    inputs.cheaper = cheaper;
    inputs.start = start;
    train::TrainCallbacks callbacks;
    callbacks.step = on_step;
    return train::Trainer(inputs, options, folder, callbacks).run();
  }
};

inline std::string model_of(const std::string& run) { return read_file(join_path(run, "model.safetensors")); }

// The lines without values that depend on a clock or on the process (memory: on a device it includes the kernels that
// the driver has loaded).
inline std::vector<std::string> lines_of(const std::string& run) {
  std::vector<std::string> lines;
  std::istringstream text(read_file(join_path(run, "metrics.jsonl")));
  for (std::string line; std::getline(text, line);) {
    auto json = io::Json::parse(line);
    for (const char* key : {"time", "step_ms", "tokens_per_second", "peak_bytes", "memory"}) json.erase(key);
    if (json.contains("dev")) json["dev"].erase("seconds");
    lines.push_back(json.dump());
  }
  return lines;
}

struct Killed {};

}  // namespace toy
