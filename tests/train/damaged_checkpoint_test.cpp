// Damaged files in a run's folder: an error names a damaged checkpoint, and on request the run resumes from the one
// before.
#include <catch2/catch.hpp>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "tests/train/toy_run.h"

using namespace comera;
using Catch::Matchers::Contains;

namespace {

void flip_a_bit(const std::string& path) {
  std::string bytes = read_file(path);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
  write_file_atomic(path, bytes);
}

std::string file_in(const std::string& run, int step, const char* name) {
  return fmt::format("{}/checkpoints/step-{:08}/{}", run, step, name);
}

}  // namespace

TEST_CASE("a damaged file of the last checkpoint is named with the checkpoint before, from which --override resumes") {
  const toy::TestFolder folder;
  toy::Job().run(folder / "whole");
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "config.json", "state.json"}) {
    const std::string run = folder / name;
    toy::Job().run(run);
    flip_a_bit(file_in(run, 24, name));
    toy::Job again;
    again.resume = true;
    CHECK_THROWS_WITH(again.run(run), Contains(name) && Contains("step-00000024") && Contains("step-00000018") &&
                                          Contains("--override"));
    again.skip_damaged = true;
    CHECK(again.run(run).step == 24);
    CHECK(toy::model_of(run) == toy::model_of(folder / "whole"));
    CHECK(toy::lines_of(run) == toy::lines_of(folder / "whole"));
    again.skip_damaged = false;
    CHECK(again.run(run).step == 24);  // the damaged file has been written again
  }
}

TEST_CASE("an error names a checkpoint with a missing file, also if there is no good one before it") {
  const toy::TestFolder folder;
  const std::string run = folder / "run";
  toy::Job().run(run);
  toy::Job again;
  again.resume = again.skip_damaged = true;
  for (const int step : {18, 24}) remove_tree(file_in(run, step, "optimizer.safetensors"));
  CHECK_THROWS_WITH(again.run(run),
                    Contains("optimizer.safetensors") && Contains("step-00000018") && Contains("--force"));
}

TEST_CASE("the checksum of the best model is checked") {
  const toy::TestFolder folder;
  const std::string run = folder / "run";
  toy::Job job;
  job.options.eval_every = job.options.save_every;  // every best model is in a state
  const train::RunResult result = job.run(run);
  REQUIRE(result.best_step > 0);
  flip_a_bit(fmt::format("{}/checkpoints/best-{:08}/model.safetensors", run, result.best_step));
  toy::Job again = job;
  again.resume = true;
  CHECK_THROWS_WITH(again.run(run), Contains("best-") && Contains("was damaged"));
}

TEST_CASE("a changed state is refused, whatever was changed") {
  const toy::TestFolder folder;
  const std::string run = folder / "run";
  toy::Job().run(run);
  const std::string path = file_in(run, 24, "state.json"), text = read_file(path);
  const auto json = io::Json::parse(text);
  for (const auto& [key, value] : json.items()) {
    auto changed = json;
    changed[key] = nullptr;
    CHECK_THROWS_AS(train::TrainState::from_json(changed.dump(), path), InputError);
    changed.erase(key);
    CHECK_THROWS_AS(train::TrainState::from_json(changed.dump(), path), InputError);
  }
  for (const char* other : {"", "{}", "[]", "null", "{\"checksum\": 3}"})
    CHECK_THROWS_AS(train::TrainState::from_json(other, path), InputError);
  CHECK(train::TrainState::from_json(text, path).to_json() == text);
}

TEST_CASE("lost lines of metrics.jsonl do not stop a resume") {
  const toy::TestFolder folder;
  toy::Job().run(folder / "whole");
  const std::vector<std::string> whole = toy::lines_of(folder / "whole");
  for (const bool all : {true, false}) {
    const std::string run = folder / (all ? "gone" : "cut");
    toy::Job first;
    first.on_step = [](const train::StepReport& report, bool) {
      if (report.step == 20) throw toy::Killed{};
    };
    CHECK_THROWS_AS(first.run(run), toy::Killed);
    const std::string metrics = join_path(run, "metrics.jsonl"), text = read_file(metrics);
    if (all)
      remove_tree(metrics);
    else
      write_file_atomic(metrics, text.substr(0, text.size() / 3));
    toy::Job rest;
    rest.resume = true;
    CHECK(rest.run(run).step == 24);
    CHECK(toy::model_of(run) == toy::model_of(folder / "whole"));
    const std::vector<std::string> lines = toy::lines_of(run);  // all lines are complete
    REQUIRE(lines.size() < whole.size());
    CHECK(lines.back() == whole.back());
  }
}
