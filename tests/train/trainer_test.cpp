#include "lib/train/trainer.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "kernels/cuda/common/runtime.h"
#include "kernels/cuda/emulator/queue.h"
#include "kernels/host/thread_pool.h"
#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "tests/train/toy_run.h"

using namespace comera;
using namespace toy;

namespace {

// Checks that a run that is killed after step `stop` and resumed ends with the same model as the uninterrupted run.
// Returns the folder of the resumed run.
std::string check_stop(const Job& job, std::int64_t stop, const TestFolder& folder) {
  const std::string run = folder / fmt::format("stopped-{}", stop).c_str();
  Job first = job, rest = job;
  first.on_step = [&](const train::StepReport& report, bool) {
    if (report.step == stop) throw Killed{};
  };
  CHECK_THROWS_AS(first.run(run), Killed);
  rest.resume = true;
  if (job.faster)
    rest.repeated = run, rest.faster = *job.faster == plan::Path::fused ? plan::Path::library : plan::Path::fused;
  rest.run(run);
  CHECK(model_of(run) == model_of(folder / "whole"));
  CHECK(lines_of(run) == lines_of(folder / "whole"));
  return run;
}

}  // namespace

TEST_CASE("a threshold that masks every rank at the start is refused, and a run that ends without ranks is told") {
  TestFolder folder;
  Job job;
  job.options.ranks.target = train::TargetKind::none;
  job.options.ranks.threshold = 1;
  CHECK_THROWS_WITH(job.run(folder / "run"), Catch::Contains("--tau 1: at the start of the run every layer"));
  CHECK(!path_exists(folder / "run"));
  job.options.ranks.floors = {{"", 1}};
  CHECK_NOTHROW(job.run(folder / "floor"));
  job.options.ranks.floors = {};
  job.options.ranks.threshold = 0.999;
  job.options.ranks.gamma = 100;
  job.options.rate_ranks = 1;
  job.options.optimizer.penalty = kernels::RankPenalty::mean;
  const std::string log = folder / "log";
  set_up_log({.level = LogLevel::warning, .file = log});
  job.run(folder / "none");
  set_up_log({LogLevel::warning});
  CHECK_THAT(read_file(log), Catch::Contains("every layer in tensor-train form has lost its ranks"));
}

TEST_CASE("a run leaves its model, its recipe, its metrics and its last checkpoints") {
  TestFolder folder;
  const std::string run = folder / "run";
  const train::RunResult result = Job().run(run);
  CHECK(result.end == train::RunEnd::steps);
  CHECK(result.step == 24);
  CHECK(result.last.counted == 30);
  CHECK(result.best_step > 0);
  for (const char* name : {"config.json", "model.safetensors", "recipe.toml", "metrics.jsonl", "vocab.txt"})
    CHECK(path_exists(join_path(run, name)));
  CHECK(train::RunFolder(run, train::RunFolder::Open::resume).checkpoints() == std::vector<std::int64_t>{18, 24});
  CHECK_THROWS_WITH(Job().run(run), Catch::Contains("is not empty") && Catch::Contains("--resume"));
  Job again;
  again.resume = true;
  const std::string model = model_of(run);
  const std::vector<std::string> lines = lines_of(run);
  const train::RunResult second = again.run(run);
  CHECK(second.step == 24);
  CHECK(second.loss == result.loss);
  CHECK(second.last.loss == result.last.loss);
  CHECK(second.last.counted == 30);
  CHECK(model_of(run) == model);
  CHECK(lines_of(run) == lines);
}

TEST_CASE("a run stopped at any step resumes to the same bytes") {
  TestFolder folder;
  Job().run(folder / "whole");
  for (const std::int64_t stop : {1, 6, 13, 17, 23}) {
    const std::string run = check_stop(Job(), stop, folder);
    const std::string last = "checkpoints/step-00000024/optimizer.safetensors";
    CHECK(read_file(join_path(run, last)) == read_file(join_path(folder / "whole", last)));
  }
}

TEST_CASE("a run with rates of stored cores, stopped at any step, resumes to the same bytes") {
  TestFolder folder;
  Job job;
  job.options.optimizer.structured_rates = true;
  // As after tensorize: the cores of a chain have very different norms.
  job.start = [](engine::Weights& weights) {
    for (const layers::ChainParameters& chain : weights.model().chains()) {
      const layers::Parameter& core = *chain.cores.front();
      for (std::int64_t i = 0; i < core.shape.elements(); ++i)
        layers::store(core.value, i, 5 * layers::load(core.value, i));
    }
  };
  job.run(folder / "whole");
  for (const std::int64_t stop : {1, 13, 17, 23}) {
    const std::string run = check_stop(job, stop, folder);
    const auto state = train::RunFolder(run, train::RunFolder::Open::resume).last_state(false);
    REQUIRE(state);
    CHECK(!state->core_rates.empty());
  }
  Job plain = job;
  plain.start = {};
  plain.run(folder / "random");
  CHECK(train::RunFolder(folder / "random", train::RunFolder::Open::resume).last_state(false)->core_rates.empty());
}

TEST_CASE("a run on a device with separate memory removes ranks, stops, and resumes to the same bytes") {
  TestFolder folder;
  Job job;
  job.machine = {&kernels::cuda::table(), DType::f32, nullptr};
  const train::RunResult result = job.run(folder / "whole");
  const train::RunResult emulator = Job().run(folder / "host");
  CHECK(result.step == emulator.step);
  CHECK(result.loss == Approx(emulator.loss).epsilon(1e-3));
  CHECK(result.last.counted == emulator.last.counted);
  CHECK(std::filesystem::file_size(join_path(folder / "whole", "model.safetensors")) ==
        std::filesystem::file_size(join_path(folder / "host", "model.safetensors")));  // the same ranks remain
  for (const std::int64_t stop : {6, 17}) check_stop(job, stop, folder);
}

TEST_CASE("measured paths belong to the run: it resumes and repeats with them, whichever path is faster then") {
  TestFolder folder;
  Job job;
  job.machine = {&kernels::cuda::table(), DType::f32, nullptr};
  std::vector<std::string> models;
  for (const plan::Path path : {plan::Path::fused, plan::Path::library}) {
    job.faster = path;
    const std::string run = folder / "whole";
    job.run(run);
    models.push_back(model_of(run));
    const plan::PathTable paths = paths_of(run);
    // The calls of a full batch and of the last dev batch.
    for (const char* call : {"forward f32 8 x 12 -> 16/16 gelu", "forward f32 6 x 12 -> 16/16 gelu"})
      CHECK(paths.contains(fmt::format("tt_linear_{}", call)));
    for (const auto& [call, chosen] : paths) CHECK(chosen == path);
    // Every shape occurred before the checkpoint.
    for (const std::int64_t stop : {13, 23}) remove_tree(check_stop(job, stop, folder));
    Job again = job;
    again.repeated = run, again.faster = path == plan::Path::fused ? plan::Path::library : plan::Path::fused;
    again.run(folder / "again");
    CHECK(model_of(folder / "again") == models.back());
    CHECK(read_file(folder / "again/recipe.toml") == read_file(folder / "whole/recipe.toml"));
    for (const char* name : {"whole", "again"}) remove_tree(folder / name);
  }
  CHECK(models[0] != models[1]);
}

TEST_CASE("a run on the host has one path for each call") {
  TestFolder folder;
  Job job;
  job.faster = plan::Path::library;
  job.run(folder / "run");
  const std::string recipe = read_file(folder / "run/recipe.toml");
  CHECK(recipe.starts_with("seed = 9\n"));
  CHECK(recipe.find("[paths]") == std::string::npos);
}

// The losses of both runs are means over 24 steps. Each step may have a relative error of 4 u sqrt(n), with u = 2^-8
// and n = 20 for the toy's tensors in bf16, merged factors and copies included.
TEST_CASE("a run in bf16 agrees with a run in float, stops, and resumes to the same bytes") {
  for (const bool dense : {true, false}) {
    TestFolder folder;
    Job job;
    job.dense = dense;
    if (dense) job.options.ranks.adapt = false, job.options.ranks.target = train::TargetKind::none;
    Job in_float = job;
    job.machine = {&kernels::cuda::table(), DType::bf16, nullptr};
    const train::RunResult result = job.run(folder / "whole"), exact = in_float.run(folder / "float");
    CHECK(result.step == exact.step);
    CHECK(std::abs(result.loss - exact.loss) <= 4 * 0x1p-8 * std::sqrt(20.0) * exact.loss);
    CHECK(model_of(folder / "whole") != model_of(folder / "float"));
    CHECK(result.memory.of(plan::Category::optimizer) == exact.memory.of(plan::Category::optimizer));
    for (const std::int64_t stop : {6, 17}) check_stop(job, stop, folder);
  }
}

std::size_t row_bytes(const engine::MemoryTable& table, const char* group) {
  const auto row =
      std::find_if(table.rows.begin(), table.rows.end(), [&](const auto& row) { return row.group == group; });
  return row == table.rows.end() ? 0 : row->bytes;
}

TEST_CASE("kernels that a device's driver loads are in the table, wherever they are called first") {
  for (const bool measures : {true, false}) {
    TestFolder folder;
    Job job;
    job.machine = {&kernels::cuda::table(), DType::f32, nullptr};
    if (measures) job.faster = plan::Path::library;
    job.options.ranks.adapt = false, job.options.ranks.target = train::TargetKind::none;
    job.options.eval_every = Period{Period::Unit::steps, 1};
    kernels::cuda::emulator::unload_all();
    const train::RunResult result = job.run(folder / "run");
    CHECK(row_bytes(result.memory, "modules") > 0);
    CHECK(result.measured_peak == result.planned_peak);
  }
}

TEST_CASE("a run takes a device's memory in one block of the planned size") {
  static std::vector<std::size_t> taken;
  taken.clear();
  kernels::Backend counting = kernels::cuda::table();
  counting.memory.allocate = [](std::size_t bytes) {
    taken.push_back(bytes);
    return kernels::cuda::table().memory.allocate(bytes);
  };
  TestFolder folder;
  Job job;
  job.machine = {&counting, DType::f32, nullptr};
  job.options.ranks.adapt = false, job.options.ranks.target = train::TargetKind::none;
  const train::RunResult result = job.run(folder / "run");
  REQUIRE(taken.size() == 1);
  CHECK(result.measured_peak == result.planned_peak);
  CHECK(row_bytes(result.memory, "graphs") > 0);
  CHECK(taken[0] + row_bytes(result.memory, "graphs") + row_bytes(result.memory, "modules") == result.planned_peak);
  CHECK(result.memory.peak <= result.planned_peak);
  CHECK(result.planned_peak - result.memory.peak <=
        plan::aligned(sizeof(layers::StepState)) + 3 * plan::alignment);  // alignment of the parts
}

TEST_CASE("a step's batch is sent to the device before the previous step has ended") {
  static std::vector<std::pair<const std::byte*, std::size_t>> pinned;
  static int beside, in_turn;
  pinned.clear(), beside = in_turn = 0;
  kernels::Backend watched = kernels::cuda::table();
  watched.device.allocate_pinned = [](std::size_t bytes) {
    void* data = kernels::cuda::table().device.allocate_pinned(bytes);
    pinned.emplace_back(static_cast<const std::byte*>(data), bytes);
    return data;
  };
  watched.device.upload_beside = [](const kernels::Context& context, void* to, const void* from, std::size_t bytes) {
    ++beside;
    return kernels::cuda::table().device.upload_beside(context, to, from, bytes);
  };
  watched.memory.upload = [](const kernels::Context& context, void* to, const void* from, std::size_t bytes) {
    for (const auto& [data, size] : pinned) in_turn += data <= from && from < data + size;
    return kernels::cuda::table().memory.upload(context, to, from, bytes);
  };
  TestFolder folder;
  Job job;
  job.machine = {&watched, DType::f32, nullptr};
  job.options.ranks.adapt = false, job.options.ranks.target = train::TargetKind::none;
  job.options.batch = 16, job.options.accumulate = 1;
  const train::RunResult result = job.run(folder / "whole");
  CHECK(beside >= result.step - 2);            // except for the first batch of a shape
  CHECK(beside + in_turn == result.step + 1);  // the last step also sends ahead
  Job plain = job;
  plain.machine = {&kernels::reference_backend(), DType::f32, nullptr};
  CHECK(result.loss == Approx(plain.run(folder / "host").loss).epsilon(1e-5));
  for (const std::int64_t stop : {6, 17}) check_stop(job, stop, folder);
}

TEST_CASE("a run that does not fit on a device is refused before the folder is changed, with settings that fit") {
  TestFolder folder;
  static kernels::Backend small = kernels::cuda::table();
  static std::size_t room;
  small.device.free_bytes = [](std::size_t* free, std::size_t* total) {
    *free = room, *total = std::size_t{1} << 20;
    return kernels::Status::ok;
  };
  Job job;
  job.machine = {&small, DType::f32, nullptr};
  room = std::size_t{1} << 26;
  const std::size_t needed = job.run(folder / "fits").planned_peak;
  room = needed;
  job.options.batch = 1 << 14;
  std::size_t planned = 0, free = 0;
  job.cheaper = [&](std::size_t bytes, std::size_t room) {
    planned = bytes, free = room;
    return std::string("use int8");
  };
  CHECK_THROWS_WITH(job.run(folder / "new"), Catch::Contains("needs") && Catch::EndsWith("use int8"));
  CHECK(planned > needed);
  CHECK(free == needed);
  job.cheaper = {};
  CHECK_THROWS_WITH(job.run(folder / "new"), Catch::Contains("a smaller model"));
  CHECK_FALSE(path_exists(folder / "new"));
}

TEST_CASE("a run whose memory cannot be allocated fails with its plan and with settings that need less") {
  TestFolder folder;
  static kernels::Backend full = kernels::reference_backend();
  full.memory.allocate = [](std::size_t) -> void* { return nullptr; };
  Job job;
  job.machine = {&full, DType::f32, nullptr};
  job.cheaper = [](std::size_t, std::size_t free) { return fmt::format("free {}", free); };
  CHECK_THROWS_WITH(job.run(folder / "new"), Catch::Contains("there is not enough; the run needs") &&
                                                 Catch::Contains("by plan") && Catch::EndsWith("free 0"));
}

TEST_CASE("a run killed at any write, fsync or rename resumes to the same bytes") {
  TestFolder folder;
  Job job;
  job.options.steps = 12;
  job.options.keep = 1;
  const std::uint64_t before = file_changes();
  job.run(folder / "whole");
  const std::uint64_t changes = file_changes() - before;
  REQUIRE(changes > 60);
  for (std::uint64_t fault = 1; fault <= changes; ++fault) {
    const std::string run = folder / fmt::format("fault-{}", fault).c_str();
    const pid_t child = fork();
    if (child == 0) {
      setenv("COMERA_FAULT_AT", std::to_string(file_changes() + fault).c_str(), 1);
      job.run(run);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    REQUIRE(WEXITSTATUS(status) == 137);
    Job rest = job;
    rest.resume = true;
    rest.run(run);
    if (model_of(run) != model_of(folder / "whole")) FAIL("different bytes after fault " << fault);
    remove_tree(run);
  }
}

TEST_CASE("the late stage of a run ends on its target, by cuts and by the objective") {
  TestFolder folder;
  Job job;
  job.options.steps = 60;
  job.options.ranks.target = train::TargetKind::ratio;
  job.options.ranks.target_value = 1.6;
  const auto metrics_with = [&](std::int64_t cuts) {
    job.options.ranks.scheduled_cuts = cuts;
    const std::string run = folder / std::to_string(cuts).c_str();
    job.run(run);
    return read_file(run + "/metrics.jsonl");
  };
  // Each removal and each step of the late stage tells what it did.
  const std::string cuts = metrics_with(8), objective = metrics_with(0);
  for (const std::string& metrics : {cuts, objective})
    for (const char* key : {"late stage begins", "\"surrogate\"", "\"size\"", "\"pushes\"", "\"removal\""})
      CHECK(metrics.find(key) != std::string::npos);
  CHECK(cuts.find("\"target enforced") != std::string::npos);
  CHECK(cuts.find("\"pushes\":\"loss\"") != std::string::npos);
  CHECK(cuts.find("\"pushes\":\"size\"") == std::string::npos);
  CHECK(objective.find("\"target reached") != std::string::npos);
}

TEST_CASE("a loss that is not finite ends the run with the last good checkpoint's name") {
  TestFolder folder;
  Job job;
  job.options.optimizer.max_norm = 0;
  job.options.ranks.adapt = false;
  job.options.ranks.target = train::TargetKind::none;
  job.options.steps = 1000;
  job.options.rate = job.options.rate_cores = 1e12;
  job.options.schedule = {train::ScheduleShape::constant, 0, 0, 0};
  job.options.save_every = Period{Period::Unit::steps, 1};
  CHECK_THROWS_AS(job.run(folder / "run"), RunError);
}

TEST_CASE("results do not depend on the number of threads") {
  const char* error = nullptr;
  const kernels::Backend* cpu = kernels::cpu_backend("auto", &error);
  REQUIRE(cpu);
  TestFolder folder;
  for (int threads : {1, 2}) {
    kernels::ThreadPool pool(threads);
    Job job;
    job.machine = {cpu, DType::f32, &pool};
    job.options.threads = threads;
    job.run(folder / fmt::format("threads-{}", threads).c_str());
  }
  CHECK(model_of(folder / "threads-1") == model_of(folder / "threads-2"));
}
