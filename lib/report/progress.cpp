#include "lib/report/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "lib/core/log.h"
#include "lib/core/process.h"
#include "lib/core/reals.h"
#include "lib/core/terminal.h"
#include "lib/core/units.h"

namespace comera::report {
namespace {

constexpr double redraw_seconds = 0.1;

std::string short_ms(double ms) { return ms < 10 ? fmt::format("{:.1f} ms", ms) : fmt::format("{:.0f} ms", ms); }

}  // namespace

std::string to_string(const StepLine& line) {
  std::string out = line.steps > 0 ? fmt::format("step {}/{}", line.step, line.steps) : fmt::format("step {}", line.step);
  out += fmt::format("  loss {:.3g}  lr {}  gnorm {:.2f}", line.loss, format_digits(line.learning_rate, 2), line.gradient_norm);
  if (line.rank) out += fmt::format("  rank {:.1f}", *line.rank);
  if (line.ratio) out += fmt::format("  ratio {:.1f}x", *line.ratio);
  out += fmt::format("  {}  {} tok/s  peak {}", short_ms(line.step_ms), format_count(line.tokens_per_second), format_bytes(line.peak_bytes));
  if (line.eta_seconds) out += "  eta " + format_seconds(*line.eta_seconds);
  return out;
}

void Eta::step_done(std::int64_t step, double now) {
  if (!first_step_) first_step_ = step, first_time_ = now;
  last_step_ = step, last_time_ = now;
}

std::optional<double> Eta::seconds(std::int64_t steps) const {
  if (!first_step_ || last_step_ <= *first_step_ || steps < last_step_) return std::nullopt;
  return (last_time_ - first_time_) / static_cast<double>(last_step_ - *first_step_) * static_cast<double>(steps - last_step_);
}

std::string bar(const StepLine& line, int columns) {
  std::string out;
  if (line.steps > 0) {
    constexpr int cells = 20;
    const int full = static_cast<int>(cells * static_cast<double>(line.step) / static_cast<double>(line.steps));
    out = fmt::format("[{:.<{}}] ", std::string(static_cast<std::size_t>(full), '#'), cells);
  }
  // What is looked at most stands where a narrow terminal still shows it.
  out += line.steps > 0 ? fmt::format("{}/{}", line.step, line.steps) : fmt::format("step {}", line.step);
  if (line.eta_seconds) out += "  eta " + format_seconds(*line.eta_seconds);
  out += fmt::format("  loss {:.3g}  {}", line.loss, short_ms(line.step_ms));
  if (line.ratio) out += fmt::format("  ratio {:.1f}x", *line.ratio);
  if (line.rank) out += fmt::format("  rank {:.1f}", *line.rank);
  out += fmt::format("  {} tok/s  peak {}", format_count(line.tokens_per_second), format_bytes(line.peak_bytes));
  return out.substr(0, static_cast<std::size_t>(columns > 1 ? columns - 1 : 1));
}

void Progress::step(StepLine line, bool report) {
  const double now = wall_seconds();
  eta_.step_done(line.step, now);
  line.eta_seconds = eta_.seconds(line.steps);
  if (line.seconds_left) line.eta_seconds = std::min(line.eta_seconds.value_or(*line.seconds_left), *line.seconds_left);
  if (report) return log_message(LogLevel::info, to_string(line));
  if (!stderr_is_terminal() || now - last_draw_ < redraw_seconds) return;
  last_draw_ = now;
  set_live_line(bar(line, terminal_columns(STDERR_FILENO)));
}

void Progress::finish() { set_live_line(""); }

}  // namespace comera::report
