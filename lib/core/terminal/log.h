// Messages to the user, on stderr and optionally in a file. stdout is only for results.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace comera {

enum class LogLevel : std::uint8_t { error, warning, info, detail };

struct LogSettings {
  LogLevel level = LogLevel::info;  // --quiet: warning, --verbose: detail; the file gets all messages
  std::string file = {};            // opened for appending; "": no file
};

void set_up_log(const LogSettings& settings);  // InputError if the file cannot be opened
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

// Sets the live line at the bottom of a terminal; messages are printed above it. "" removes it. Does nothing if stderr
// is no terminal.
void set_live_line(std::string_view text);

bool stderr_is_terminal();
bool colour_wanted();  // stderr is a terminal, and NO_COLOR is not set

// Returns `text` with its control characters as visible text, so that a name from a file cannot control the terminal.
std::string printable(std::string_view text);
// The same for text of several lines: line ends and tabs stay.
std::string printable_lines(std::string_view text);

}  // namespace comera
