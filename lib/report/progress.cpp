#include "lib/report/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cmath>

#include "lib/core/units.h"

namespace comera::report {
namespace {

constexpr double redraw_seconds = 0.1;

double now_seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// 2.9e-4, not 2.9e-04.
std::string short_scientific(double value) {
  if (value == 0) return "0";
  std::string text = fmt::format("{:.1e}", value);
  const std::size_t digits = text.find('e') + 2;
  if (digits < text.size() && text[digits] == '0') text.erase(digits, 1);
  return text;
}

std::string short_ms(double ms) { return ms < 10 ? fmt::format("{:.1f} ms", ms) : fmt::format("{:.0f} ms", ms); }

int columns_of(std::FILE* file) {
  winsize size{};
  return ioctl(fileno(file), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

std::string to_string(const StepLine& line) {
  std::string out = line.steps > 0 ? fmt::format("step {}/{}", line.step, line.steps) : fmt::format("step {}", line.step);
  out += fmt::format("  loss {:.3g}  lr {}  gnorm {:.2f}", line.loss, short_scientific(line.learning_rate), line.gradient_norm);
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
    out = "[" + std::string(static_cast<std::size_t>(full), '#') + std::string(static_cast<std::size_t>(cells - full), '.') + "] ";
  }
  out += to_string(line);
  return out.substr(0, static_cast<std::size_t>(columns > 1 ? columns - 1 : 1));
}

Progress::Progress(std::FILE* file, bool quiet) : file_(file), quiet_(quiet), terminal_(isatty(fileno(file)) == 1) {}

Progress::~Progress() { finish(); }

void Progress::step(const StepLine& line, bool report) {
  if (quiet_) return;
  if (!terminal_) {
    if (report) fmt::print(file_, "{}\n", to_string(line));
    return;
  }
  if (report) return say(to_string(line));
  const double now = now_seconds();
  if (now - last_draw_ < redraw_seconds) return;
  last_draw_ = now;
  fmt::print(file_, "\r\x1b[K{}", bar(line, columns_of(file_)));
  std::fflush(file_);
  drawn_ = true;
}

void Progress::say(const std::string& text) {
  if (quiet_) return;
  clear_bar();
  fmt::print(file_, "{}\n", text);
  std::fflush(file_);
}

void Progress::finish() { clear_bar(); }

void Progress::clear_bar() {
  if (!drawn_) return;
  fmt::print(file_, "\r\x1b[K");
  std::fflush(file_);
  drawn_ = false;
}

}  // namespace comera::report
