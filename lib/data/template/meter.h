// Bounds the work and the output of a template, so that one without an end is refused.
#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace comera::data::jinja {

// What is wrong in a template; the interpreter adds the file and the line.
class TemplateError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class... Args>
[[noreturn]] void fail_template(fmt::format_string<Args...> format, Args&&... args) {
  throw TemplateError(fmt::format(format, std::forward<Args>(args)...));
}

// A conversation of a million characters takes some hundred thousand steps.
struct Limits {
  std::uint64_t steps = 10'000'000;
  std::size_t bytes = std::size_t{32} << 20;  // of any text
};

class Meter {
 public:
  explicit Meter(const Limits& limits = {}) : limits_(limits) {}

  void step(std::uint64_t steps = 1) {
    steps_ += steps;
    if (steps_ > limits_.steps || steps > limits_.steps)
      fail_template("takes more than {} steps, so it may have no end", limits_.steps);
  }
  // Called before a text of this size is made.
  void text(std::size_t bytes) {
    if (bytes > limits_.bytes)
      fail_template("makes a text of more than {} MiB, so it may have no end", limits_.bytes >> 20);
    step(1 + bytes / 64);
  }
  // Called before `more` bytes are appended to a text of `bytes`.
  void append(std::size_t bytes, std::size_t more) {
    if (bytes + more > limits_.bytes) text(bytes + more);
    step(1 + more / 64);
  }
  void enter() {
    if (++depth_ > 200) fail_template("calls and nests deeper than 200");
  }
  void leave() { --depth_; }

 private:
  Limits limits_;
  std::uint64_t steps_ = 0;
  int depth_ = 0;
};

// Holds one level of nesting.
class Level {
 public:
  explicit Level(Meter& meter) : meter_(meter) { meter_.enter(); }
  ~Level() { meter_.leave(); }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  Meter& meter_;
};

}  // namespace comera::data::jinja
