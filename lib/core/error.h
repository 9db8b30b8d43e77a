// The two ways a command can end badly, and how each is said. The message names where, what was wanted, what came, what
// to do.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>

namespace comera {

// Exit code 2: wrong usage or wrong input (a file that is missing, unreadable or malformed included).
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Exit code 1: failed while running (disk full, out of memory, diverged, a --require not met).
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

// A broken promise between our own rooms: a bug, never the user's fault.
[[noreturn]] void fail_check(const char* condition, const char* file, int line);

}  // namespace comera

#define COMERA_CHECK(condition) ((condition) ? void(0) : ::comera::fail_check(#condition, __FILE__, __LINE__))
