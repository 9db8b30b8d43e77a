#include "lib/core/terminal/stop.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <string_view>

#include "lib/core/files/temporary.h"

namespace comera {
namespace {

constexpr std::int64_t patience = 1'500'000'000;  // nanoseconds
constexpr std::string_view erase_line = "\r\033[K";

volatile std::sig_atomic_t caught_signal = 0;
std::atomic<std::int64_t> cut_at = 0;  // 0: no deadline
std::atomic<const char*> answer_text = "stopping; again to quit now";
std::atomic<bool> may_cut = true;
std::atomic<bool> on_terminal = false;

std::int64_t nanoseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{1'000'000'000} * now.tv_sec + now.tv_nsec;
}

// Runs in a signal handler: no allocation, no locks, one write.
void answer() {
  char line[256];
  std::size_t size = 0;
  const auto add = [&](std::string_view text) {
    text = text.substr(0, sizeof line - size);
    std::copy(text.begin(), text.end(), line + size);
    size += text.size();
  };
  if (on_terminal) add(erase_line);
  add(answer_text.load());
  add("\n");
  (void)!::write(STDERR_FILENO, line, size);
}

void on_stop_signal(int signal) {
  const int error = errno;
  if (caught_signal && signal == SIGHUP) return;  // a closing terminal may send it twice
  if (caught_signal) {
    if (on_terminal) (void)!::write(STDERR_FILENO, erase_line.data(), erase_line.size());
    ::_exit(128 + signal);
  }
  if (may_cut) cut_at = nanoseconds() + patience;
  caught_signal = signal;
  answer();
  errno = error;
}

// A file reached its size limit (ulimit -f). Every further write to it raises the signal again and also fails with its
// own error message.
void on_size_limit(int signal) {
  if (!caught_signal) caught_signal = signal;
}

void catch_signal(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;  // a save in progress continues
  ::sigaction(signal, &action, nullptr);
}

}  // namespace

void catch_stop_signals() {
  on_terminal = ::isatty(STDERR_FILENO) == 1;
  catch_signal(SIGINT, on_stop_signal);
  catch_signal(SIGTERM, on_stop_signal);
  struct sigaction hang_up {};
  ::sigaction(SIGHUP, nullptr, &hang_up);
  if (hang_up.sa_handler != SIG_IGN) catch_signal(SIGHUP, on_stop_signal);  // under nohup SIGHUP stays ignored
}

void catch_size_limit() { catch_signal(SIGXFSZ, on_size_limit); }

int stop_signal() { return caught_signal; }

void check_stop() {
  if (caught_signal) throw Stopped{caught_signal};
}

StopAnswer::StopAnswer(const char* text, bool may_cut_now)
    : text_before_(answer_text.exchange(text)), may_cut_before_(may_cut.exchange(may_cut_now)) {
  if (!may_cut_now) cut_at = 0;
}

StopAnswer::~StopAnswer() {
  answer_text = text_before_;
  may_cut = may_cut_before_;
}

void end_if_overdue() {
  if (cut_at == 0 || nanoseconds() < cut_at) return;
  remove_temporaries();
  if (on_terminal) (void)!::write(STDERR_FILENO, erase_line.data(), erase_line.size());
  ::_exit(128 + caught_signal);
}

}  // namespace comera
