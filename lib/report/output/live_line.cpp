#include "lib/report/output/live_line.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "lib/core/error.h"
#include "lib/core/process.h"
#include "lib/core/terminal/live_line.h"
#include "lib/core/terminal/log.h"
#include "lib/core/terminal/stop.h"
#include "lib/core/terminal/terminal.h"
#include "lib/core/thread.h"
#include "lib/core/units.h"

namespace comera::report {
namespace {

constexpr double patience = 1;  // seconds of work before it is shown
constexpr double plain_period = 10;
constexpr auto redraw = std::chrono::milliseconds(100);

std::string amount(const TaskView& task, std::int64_t count) {
  return task.unit == TaskUnit::bytes ? format_bytes(static_cast<std::uint64_t>(std::max<std::int64_t>(count, 0)))
                                      : std::to_string(count);
}

// "reading train.tsv 1.2 MiB/14 MiB"
std::string text_of(const TaskView& task) {
  std::string text = printable(task.what);
  if (task.of > 0)
    return fmt::format("{} {}/{}", text, amount(task, std::min(task.done, task.of)), amount(task, task.of));
  return task.done > 0 ? fmt::format("{} {}", text, amount(task, task.done)) : text;
}

bool counts(const TaskView& task) { return task.of > 0 || task.done > 0; }

// Shows a task without a count only if it is the innermost one.
std::string text_of(std::span<const TaskView> tasks) {
  std::string text;
  for (const TaskView& task : tasks)
    if (counts(task) || &task == &tasks.back()) text.append(text.empty() ? "" : ": ").append(text_of(task));
  return text;
}

std::string bar_of(std::span<const TaskView> tasks) {
  constexpr int cells = 10;
  const auto known = std::find_if(tasks.begin(), tasks.end(), [](const TaskView& task) { return task.of > 0; });
  if (known == tasks.end()) return "";
  const double share =
      static_cast<double>(std::clamp<std::int64_t>(known->done, 0, known->of)) / static_cast<double>(known->of);
  return fmt::format("[{:.<{}}] ", std::string(static_cast<std::size_t>(cells * share), '#'), cells);
}

// Cuts the text to at most `bytes` bytes and never inside of a UTF-8 character.
std::string cut(std::string text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xc0) == 0x80) --bytes;
  text.resize(bytes);
  return text;
}

// Keeps only whole fields, which are separated by two blanks.
std::string fields_within(std::string text, std::size_t bytes) {
  while (text.size() > bytes) text.resize(std::min(text.rfind("  "), text.size() - 1));
  return text;
}

std::string eta_text(const std::optional<double>& seconds) {
  if (!seconds) return "";
  return "  eta " + (*seconds < 10 ? fmt::format("{:.0f}s", *seconds) : format_seconds(*seconds));
}

std::string note_of(std::span<const TaskView> tasks) {
  return tasks.back().note.empty() ? "" : "  " + tasks.back().note;
}

}  // namespace

void TaskLines::see(std::span<const TaskView> tasks, double now) {
  std::map<std::uint64_t, Eta> etas;
  for (const TaskView& task : tasks) {
    Eta& eta = etas[task.number];
    if (const auto known = etas_.find(task.number); known != etas_.end()) eta = known->second;
    if (!eta.last()) eta.step_done(0, task.began);
    if (task.done != *eta.last()) eta.step_done(task.done, now);
  }
  etas_ = std::move(etas);
  if (tasks.empty()) return;
  if (!busy_last_ || now - *busy_last_ > patience) busy_since_ = tasks.front().began;
  busy_last_ = now;
}

// The remaining time of the outermost task with a known end, and none before it has done a part: the time of a task
// within it would be taken for the whole. A task's own estimate has priority, but does not count the tasks within it
// when its own part is done, as in the last evaluation of a run.
std::optional<double> TaskLines::seconds_left(std::span<const TaskView> tasks, double now) const {
  std::optional<double> own;
  for (const TaskView& task : tasks) {
    if (task.seconds_left) own = std::max(own.value_or(0), *task.seconds_left);
    if (task.seconds_left || task.of <= 0 || !task.note.empty()) continue;
    const std::optional<double> counted = etas_.at(task.number).seconds(task.of, now);
    if (own <= 0.0) return counted;
    return own ? std::max(*own, counted.value_or(0)) : counted;
  }
  return own > 0.0 ? own : std::nullopt;
}

std::string TaskLines::for_terminal(std::span<const TaskView> tasks, double now, int columns) const {
  if (tasks.empty() || now - busy_since_ < patience) return "";
  const auto room = static_cast<std::size_t>(std::max(columns - 1, 0));  // a full line would wrap
  const std::string eta = eta_text(seconds_left(tasks, now));
  const std::string head = cut(bar_of(tasks) + text_of(tasks), room - std::min(room, eta.size()));
  return cut(fields_within(head + eta + note_of(tasks), std::max(room, head.size() + eta.size())), room);
}

std::string TaskLines::for_log(std::span<const TaskView> tasks, double now, double last_message) const {
  if (tasks.empty() || now - std::max(busy_since_, last_message) < plain_period) return "";
  return text_of(tasks) + eta_text(seconds_left(tasks, now)) + note_of(tasks);
}

LiveLine::LiveLine() {
  try {
    thread_ = start_thread([this] { watch(); });
  } catch (const RunError&) {
  }
}

LiveLine::~LiveLine() {
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  ended_.notify_all();
  if (thread_.joinable()) thread_.join();
  set_live_line("");
}

void LiveLine::watch() {
  TaskLines lines;
  for (std::unique_lock lock(mutex_); !ended_.wait_for(lock, redraw, [this] { return end_; });) {
    end_if_overdue();
    const std::vector<TaskView> tasks = tasks_at_hand();
    const double now = wall_seconds();
    lines.see(tasks, now);
    if (stderr_is_terminal())
      set_live_line(lines.for_terminal(tasks, now, terminal_columns(STDERR_FILENO)));
    else if (const std::string line = lines.for_log(tasks, now, last_message_seconds()); !line.empty())
      log_message(LogLevel::info, line);
  }
}

}  // namespace comera::report
