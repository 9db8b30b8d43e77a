// The error classes of commands and their exit codes. A message names the place, the expected value, the actual value
// and the remedy.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>

namespace comera {

// Exit code 2: wrong usage or wrong input, including a missing, unreadable or malformed file.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Exit code 1: failed while running (disk full, out of memory, divergence, an unmet --require).
class RunError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class... Args>
[[noreturn]] void fail_input(fmt::format_string<Args...> text, Args&&... args) {
  throw InputError(fmt::format(text, std::forward<Args>(args)...));
}

template <class... Args>
[[noreturn]] void fail_run(fmt::format_string<Args...> text, Args&&... args) {
  throw RunError(fmt::format(text, std::forward<Args>(args)...));
}

// Reports a violated internal invariant (std::logic_error). It is a bug of the program, never the user's fault.
[[noreturn]] void fail_check(const char* condition, const char* file, int line);

}  // namespace comera

#define COMERA_CHECK(condition) ((condition) ? void(0) : ::comera::fail_check(#condition, __FILE__, __LINE__))
