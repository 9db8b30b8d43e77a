#include "lib/report/output/live_line.h"

#include <catch2/catch.hpp>

using namespace comera;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using report::TaskLines;

namespace {

TaskView counted(std::string what, std::int64_t done, std::int64_t of) {
  return {.number = 1, .what = std::move(what), .note = "", .done = done, .of = of, .began = 100};
}

// Calls the lines as the watching thread does, at one moment.
std::string shown(TaskLines& lines, const std::vector<TaskView>& tasks, double now, int columns = 80) {
  lines.see(tasks, now);
  return lines.for_terminal(tasks, now, columns);
}

}  // namespace

TEST_CASE("live line: nothing in the first second, then progress and remaining time") {
  TaskLines lines;
  const std::vector<TaskView> begun{counted("evaluating", 0, 400)}, half{counted("evaluating", 100, 400)};
  CHECK(shown(lines, begun, 100.1).empty());
  CHECK(shown(lines, begun, 100.9).empty());
  CHECK(shown(lines, begun, 101) == "[..........] evaluating 0/400");
  CHECK(shown(lines, half, 110) == "[##........] evaluating 100/400  eta 30s");
  CHECK(shown(lines, half, 115) ==
        "[##........] evaluating 100/400  eta 25s");  // it goes down while nothing is counted
  CHECK(shown(lines, half, 1000) == "[##........] evaluating 100/400  eta 0s");
  CHECK(shown(lines, {}, 1001).empty());
}

TEST_CASE("live line: a following task continues the line, and a pause starts a new first second") {
  TaskLines lines;
  const std::vector<TaskView> first{counted("reading", 1, 2)};
  TaskView next = counted("embedding", 0, 7);
  next.number = 2, next.began = 102.1;
  CHECK_FALSE(shown(lines, first, 102).empty());
  CHECK(shown(lines, {next}, 102.2) == "[..........] embedding 0/7");
  next.number = 3, next.began = 110;
  CHECK(shown(lines, {next}, 110.1).empty());
  CHECK_FALSE(shown(lines, {next}, 111.1).empty());
}

TEST_CASE("live line: all nested tasks with a count, and the remaining time of the outermost with a known end") {
  TaskLines lines;
  TaskView verb = counted("tensorizing", 0, 0), layers = counted("fitting layers", 0, 37),
           name = counted("encoder.layer.0.output.dense", 0, 0);
  layers.number = 2, name.number = 3;
  CHECK(shown(lines, {verb}, 105) == "tensorizing");
  CHECK(shown(lines, {verb, layers, name}, 105) == "[..........] fitting layers 0/37: encoder.layer.0.output.dense");
  TaskView inputs = counted("inputs of block 1", 20, 40);
  inputs.number = 4;
  CHECK(shown(lines, {verb, layers, inputs}, 110) == "[..........] fitting layers 0/37: inputs of block 1 20/40");
  layers.done = 1, inputs.done = 30;
  CHECK(shown(lines, {verb, layers, inputs}, 120) ==
        "[..........] fitting layers 1/37: inputs of block 1 30/40  eta 12m00s");
}

TEST_CASE("live line: bytes, a count without end, and names with terminal control characters") {
  TaskLines lines;
  TaskView reading = counted("reading a\033[2J.txt", 3 << 20, 12 << 20);
  reading.unit = TaskUnit::bytes;
  CHECK(shown(lines, {reading}, 103) == "[##........] reading a\\x1b[2J.txt 3.00 MiB/12.0 MiB  eta 9s");
  CHECK(shown(lines, {counted("answering texts", 12, 0)}, 103) == "answering texts 12");
  CHECK_THAT(shown(lines, {counted("reading", 12, 10)}, 103), Contains("reading 10/10"));  // a file that grew
}

TEST_CASE("live line: it never fills the terminal line, and the remaining time is cut last") {
  TaskLines lines;
  const std::string name(100, 'n');
  TaskView task = counted(name, 10, 40);
  for (const int columns : {1, 5, 20, 80, 200})
    CHECK(shown(lines, {task}, 110, columns).size() <= static_cast<std::size_t>(columns > 1 ? columns - 1 : 0));
  CHECK_THAT(shown(lines, {task}, 110), EndsWith("nnn  eta 30s"));
  CHECK(shown(lines, {task}, 110).size() == 79);
  // A letter of two bytes is never split.
  task.what = std::string(67, 'n') + "\u00e4\u00e4\u00e4\u00e4";
  task.of = 0, task.done = 0;
  for (int columns = 60; columns < 80; ++columns) {
    const std::string text = shown(lines, {task}, 110, columns);
    CHECK((text.empty() || text.back() == 'n' || text.ends_with("\u00e4")));
  }
}

TEST_CASE("live line: a task with a note shows whole fields of it and its own remaining time") {
  TaskLines lines;
  TaskView step = counted("step", 60, 80);
  step.note = "loss 3.21  42 ms  ratio 43.1x  rank 14.2  97.0k tok/s  peak 812 MiB", step.seconds_left = 7;
  CHECK(shown(lines, {step}, 130, 200) ==
        "[#######...] step 60/80  eta 7s  loss 3.21  42 ms  ratio 43.1x  rank 14.2  97.0k tok/s  peak 812 MiB");
  CHECK(shown(lines, {step}, 130, 80) == "[#######...] step 60/80  eta 7s  loss 3.21  42 ms  ratio 43.1x  rank 14.2");
  TaskView evaluating = counted("evaluating", 3, 9);
  evaluating.number = 2;
  CHECK(shown(lines, {step, evaluating}, 130) == "[#######...] step 60/80: evaluating 3/9  eta 1m00s");
  step.done = 80, step.seconds_left = 0;
  CHECK(shown(lines, {step, evaluating}, 130) == "[##########] step 80/80: evaluating 3/9  eta 1m00s");
  evaluating.number = 3, evaluating.done = 0;
  CHECK(shown(lines, {step, evaluating}, 130) == "[##########] step 80/80: evaluating 0/9");
  step.done = 60, step.seconds_left = 700;
  CHECK(shown(lines, {step, evaluating}, 130) == "[#######...] step 60/80: evaluating 0/9  eta 11m40s");
}

TEST_CASE("live line: without a terminal, a line after every ten seconds without a message") {
  TaskLines lines;
  const std::vector<TaskView> tasks{counted("evaluating", 100, 400)};
  const auto logged = [&](double now, double last_message) {
    lines.see(tasks, now);
    return lines.for_log(tasks, now, last_message);
  };
  CHECK(logged(105, 0).empty());
  CHECK(logged(109.9, 0).empty());
  CHECK(logged(110, 0) == "evaluating 100/400  eta 10s");  // estimated from 15 seconds at 105
  CHECK(logged(112, 110).empty());
  CHECK_FALSE(logged(120, 110).empty());
  CHECK(logged(125, 119).empty());
  CHECK(lines.for_log({}, 200, 0).empty());
}
