#include "lib/core/log.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "lib/core/file.h"

namespace comera {
namespace {

struct Log {
  std::mutex mutex;
  LogLevel level = LogLevel::info;
  std::unique_ptr<AppendFile> file;
  std::string live_line;
};

Log& log_state() {
  static Log state;
  return state;
}

// One call, so that lines of several processes do not mix.
void to_stderr(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

std::string prefix_of(LogLevel level, bool colour) {
  if (level == LogLevel::error) return colour ? "\033[31merror:\033[0m " : "error: ";
  if (level == LogLevel::warning) return colour ? "\033[33mwarning:\033[0m " : "warning: ";
  return "";
}

}  // namespace

void set_up_log(const LogSettings& settings) {
  Log& state = log_state();
  const std::lock_guard lock(state.mutex);
  state.level = settings.level;
  state.file = settings.file.empty() ? nullptr : std::make_unique<AppendFile>(settings.file);
}

bool log_shows(LogLevel level) {
  Log& state = log_state();
  const std::lock_guard lock(state.mutex);
  return level <= state.level || state.file;
}

void log_message(LogLevel level, std::string_view text) {
  Log& state = log_state();
  const std::lock_guard lock(state.mutex);
  if (state.file) state.file->append(fmt::format("{}{}\n", prefix_of(level, false), text));
  if (level > state.level) return;
  const std::string erase = state.live_line.empty() ? "" : "\r\033[K";
  to_stderr(fmt::format("{}{}{}\n{}", erase, prefix_of(level, colour_wanted()), text, state.live_line));
}

void set_live_line(std::string_view text) {
  Log& state = log_state();
  const std::lock_guard lock(state.mutex);
  if (!stderr_is_terminal() || state.level < LogLevel::info || (text.empty() && state.live_line.empty())) return;
  state.live_line = text;
  to_stderr(fmt::format("\r\033[K{}", text));
}

bool stderr_is_terminal() {
  static const bool terminal = ::isatty(STDERR_FILENO) == 1;
  return terminal;
}

bool colour_wanted() {
  const char* no_colour = std::getenv("NO_COLOR");
  return stderr_is_terminal() && !(no_colour && *no_colour);
}

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace comera
