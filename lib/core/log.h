// Messages for the person at the terminal: to stderr, and to a file where one was asked for. stdout belongs to results.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace comera {

enum class LogLevel : std::uint8_t { error, warning, info, detail };

struct LogSettings {
  LogLevel level = LogLevel::info;  // --quiet: warning, --verbose: detail; the file always gets everything
  std::string file = {};            // appended to; "" : none
};

void set_up_log(const LogSettings& settings);  // an InputError where the file cannot be opened
void log_message(LogLevel level, std::string_view text);
bool log_shows(LogLevel level);

template <class... Args>
void log_warning(fmt::format_string<Args...> text, Args&&... args) {
  log_message(LogLevel::warning, fmt::format(text, std::forward<Args>(args)...));
}

template <class... Args>
void log_info(fmt::format_string<Args...> text, Args&&... args) {
  log_message(LogLevel::info, fmt::format(text, std::forward<Args>(args)...));
}

template <class... Args>
void log_detail(fmt::format_string<Args...> text, Args&&... args) {
  if (log_shows(LogLevel::detail)) log_message(LogLevel::detail, fmt::format(text, std::forward<Args>(args)...));
}

// The one live line at the bottom of a terminal; messages are printed above it. Does nothing where stderr is no
// terminal. "" takes it away.
void set_live_line(std::string_view text);

bool stderr_is_terminal();
bool colour_wanted();  // a terminal, and NO_COLOR is not set

// ASCII control characters of `text` made visible, so that a name out of a file cannot drive the terminal.
std::string printable(std::string_view text);

}  // namespace comera
