// Signals that stop the program. The first one prints an answer on stderr at once and sets a flag that long work
// polls. The second one ends the process.
#pragma once

namespace comera {

// Thrown to abandon work because of a signal. It is no std::exception, so that handlers of errors do not catch it.
struct Stopped {
  int signal;
};

void catch_stop_signals();  // SIGINT, SIGTERM, and SIGHUP unless it is ignored
// SIGXFSZ sets the flag too, so that work with results to save stops before a file reaches its size limit.
void catch_size_limit();
int stop_signal();  // 0 if no signal came
// Throws Stopped if a signal came. In a training run only where the trainer catches it: a stopped run ends with a
// checkpoint.
void check_stop();

// Sets the answer to a signal for its lifetime. Answers nest.
class StopAnswer {
 public:
  // `text`: a string literal. `may_cut`: nothing is lost if end_if_overdue() ends the process.
  StopAnswer(const char* text, bool may_cut);
  ~StopAnswer();
  StopAnswer(const StopAnswer&) = delete;
  StopAnswer& operator=(const StopAnswer&) = delete;

 private:
  const char* text_before_;
  bool may_cut_before_;
};

// A single library call may take minutes. If a signal came more than 1.5 seconds ago while `may_cut` was true, removes
// temporary files and ends the process. Called by a separate thread (report::LiveLine).
void end_if_overdue();

}  // namespace comera
