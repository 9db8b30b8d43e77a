#include "lib/report/run/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "lib/core/process.h"
#include "lib/core/reals.h"
#include "lib/core/terminal/log.h"
#include "lib/core/terminal/terminal.h"
#include "lib/core/units.h"

namespace comera::report {
namespace {

constexpr double told_every = 0.1;  // seconds

std::string short_ms(double ms) { return ms < 10 ? fmt::format("{:.1f} ms", ms) : fmt::format("{:.0f} ms", ms); }

}  // namespace

std::string to_string(const StepLine& line, int columns) {
  struct Field {
    int rank;  // fields of lowest rank are left out first
    std::string text;
  };
  std::vector<Field> fields = {
      {9, line.steps > 0 ? fmt::format("step {}/{}", line.step, line.steps) : fmt::format("step {}", line.step)},
      {8, fmt::format("loss {:.3g}", line.loss)},
      {2, "lr " + format_digits(line.learning_rate, 2)},
      {1, fmt::format("gnorm {:.2f}", line.gradient_norm)}};
  if (line.rank) fields.push_back({4, fmt::format("rank {:.1f}", *line.rank)});
  if (line.ratio) fields.push_back({5, fmt::format("ratio {:.1f}x", *line.ratio)});
  fields.push_back({6, short_ms(line.step_ms)});
  fields.push_back({0, fmt::format("{} tok/s", format_count(line.tokens_per_second))});
  if (line.peak_bytes > 0) fields.push_back({3, "peak " + format_bytes(line.peak_bytes)});
  if (line.eta_seconds) fields.push_back({7, "eta " + format_seconds(*line.eta_seconds)});
  std::string text;
  for (;;) {
    text.clear();
    for (const Field& field : fields) text.append(text.empty() ? "" : "  ").append(field.text);
    if (text.size() <= static_cast<std::size_t>(columns) || fields.size() == 1) return text;
    fields.erase(
        std::min_element(fields.begin(), fields.end(), [](const Field& a, const Field& b) { return a.rank < b.rank; }));
  }
}

std::string live_note(const StepLine& line) {
  std::string note = fmt::format("loss {:.3g}  {}", line.loss, short_ms(line.step_ms));
  if (line.ratio) note += fmt::format("  ratio {:.1f}x", *line.ratio);
  if (line.rank) note += fmt::format("  rank {:.1f}", *line.rank);
  note += fmt::format("  {} tok/s", format_count(line.tokens_per_second));
  if (line.peak_bytes > 0) note += "  peak " + format_bytes(line.peak_bytes);
  return note;
}

void Eta::step_done(std::int64_t step, double now) {
  if (!first_step_) first_step_ = step, first_time_ = now;
  last_step_ = step, last_time_ = now;
}

std::optional<double> Eta::seconds(std::int64_t steps) const {
  if (!first_step_ || last_step_ <= *first_step_ || steps < last_step_) return std::nullopt;
  return (last_time_ - first_time_) / static_cast<double>(last_step_ - *first_step_) *
         static_cast<double>(steps - last_step_);
}

std::optional<double> Eta::seconds(std::int64_t steps, double now) const {
  const std::optional<double> then = seconds(steps);
  return then ? std::optional(std::max(0.0, *then - (now - last_time_))) : std::nullopt;
}

void Progress::begin(std::int64_t step, std::int64_t steps) { task_.emplace("step", steps).done(step); }

void Progress::step(StepLine line, bool report) {
  const double now = wall_seconds();
  eta_.step_done(line.step, now);
  line.eta_seconds = eta_.seconds(line.steps);
  if (line.seconds_left) line.eta_seconds = std::min(line.eta_seconds.value_or(*line.seconds_left), *line.seconds_left);
  if (!task_) task_.emplace("step", line.steps);
  task_->done(line.step);
  if (report || now - last_told_ >= told_every) task_->tell(live_note(line), line.eta_seconds), last_told_ = now;
  if (report)
    log_message(LogLevel::info, to_string(line, stderr_is_terminal() ? terminal_columns(STDERR_FILENO) : INT_MAX));
}

}  // namespace comera::report
