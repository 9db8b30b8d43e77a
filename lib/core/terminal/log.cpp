#include "lib/core/terminal/log.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>

#include "lib/core/files/file.h"
#include "lib/core/process.h"
#include "lib/core/terminal/live_line.h"
#include "lib/core/terminal/terminal.h"

namespace comera {
namespace {

struct Log {
  std::mutex mutex;
  LogLevel level = LogLevel::info;
  std::unique_ptr<AppendFile> file;
  std::string live_line;
  bool in_line = false;  // the last text on stdout (a terminal) did not end with a line end
  double last_message = 0;
};

Log& log_state() {
  static Log state;
  return state;
}

constexpr std::string_view erase_line = "\r\033[K";

// One call per message, so that lines of several processes do not mix.
void to_stderr(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

std::string prefix_of(LogLevel level, bool colour) {
  if (level == LogLevel::error) return colour ? "\033[31merror:\033[0m " : "error: ";
  if (level == LogLevel::warning) return colour ? "\033[33mwarning:\033[0m " : "warning: ";
  return "";
}

// Returns the number of bytes of the UTF-8 control character at `at`, 0 if it is none. Control characters are those of
// ASCII and U+0080 to U+009F, which terminals interpret too.
std::size_t control_at(std::string_view text, std::size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x20 || byte == 0x7f) return 1;
  const bool second = byte == 0xc2 && at + 1 < text.size() && (static_cast<unsigned char>(text[at + 1]) & 0xe0) == 0x80;
  return second ? 2 : 0;
}

// Replaces control characters by text such as \x1b, except those in `kept`.
std::string without_controls(std::string_view text, std::string_view kept) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t bytes = control_at(text, i);
    if (bytes == 0 || kept.find(text[i]) != std::string_view::npos) {
      out += text[i++];
      continue;
    }
    for (const char c : text.substr(i, bytes)) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    i += bytes;
  }
  return out;
}

// Breaks lines at blanks that are longer than the terminal. The first follows a prefix of `used` columns.
std::string fitted(std::string_view text, std::size_t used) {
  const int columns = terminal_columns(STDERR_FILENO);
  std::string out;
  for (std::size_t at = 0; at <= text.size(); used = 0) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    const bool fits = used + width_of(line) <= static_cast<std::size_t>(columns);
    out.append(at > 0 ? "\n" : "").append(fits ? line : wrap(line, columns, 2, static_cast<int>(used)));
    at = end + 1;
  }
  return out;
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

void log_message(LogLevel level, std::string_view message) {
  const std::string text = printable_lines(message);
  Log& state = log_state();
  const std::lock_guard lock(state.mutex);
  if (state.file) state.file->append(fmt::format("{}{}\n", prefix_of(level, false), text));
  if (level > state.level) return;
  state.last_message = wall_seconds();
  // Only erases the live line. Its owner draws it again, because its text may be out of date.
  const std::string erase = std::exchange(state.live_line, "").empty() ? "" : std::string(erase_line);
  const std::string shown = stderr_is_terminal() ? fitted(text, prefix_of(level, false).size()) : text;
  to_stderr(fmt::format("{}{}{}\n", erase, prefix_of(level, colour_wanted()), shown));
}

void set_live_line(std::string_view text) {
  Log& state = log_state();
  const std::lock_guard lock(state.mutex);
  if (!stderr_is_terminal() || state.level < LogLevel::info || state.in_line || text == state.live_line) return;
  state.live_line = text;
  to_stderr(fmt::format("{}{}", erase_line, text));
}

bool write_stdout(std::string_view text) {
  static const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  Log& state = log_state();
  const std::lock_guard lock(state.mutex);
  if (terminal && !std::exchange(state.live_line, "").empty()) to_stderr(erase_line);
  if (terminal && !text.empty()) state.in_line = text.back() != '\n';
  const std::string shown = terminal ? printable_lines(text) : "";
  if (terminal) text = shown;
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
}

double last_message_seconds() {
  Log& state = log_state();
  const std::lock_guard lock(state.mutex);
  return state.last_message;
}

bool stderr_is_terminal() {
  static const bool terminal = ::isatty(STDERR_FILENO) == 1;
  return terminal;
}

bool colour_wanted() {
  const char* no_colour = std::getenv("NO_COLOR");
  return stderr_is_terminal() && !(no_colour && *no_colour);
}

std::string printable(std::string_view text) { return without_controls(text, ""); }

std::string printable_lines(std::string_view text) { return without_controls(text, "\n\t"); }

}  // namespace comera
