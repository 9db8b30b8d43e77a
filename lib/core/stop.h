// Signals that end the work. The first one is answered at once on stderr and sets a flag that long work looks at; the
// second one ends the process.
#pragma once

namespace comera {

// Thrown where work is given up because of a signal. It is no std::exception: code that puts errors into words must let
// it pass.
struct Stopped {
  int signal;
};

void catch_stop_signals();  // SIGINT, SIGTERM, and SIGHUP unless it is ignored
void catch_size_limit();    // SIGXFSZ sets the flag too: work that is to be saved stops before a file grows too large
int stop_signal();          // 0 where none came
void check_stop();          // throws Stopped where one came; never called between the first step of a run and its end

// How a signal is answered while this lives. Answers nest.
class StopAnswer {
 public:
  // `text`: a literal. `may_cut`: nothing is lost where end_if_overdue() ends the process.
  StopAnswer(const char* text, bool may_cut);
  ~StopAnswer();
  StopAnswer(const StopAnswer&) = delete;
  StopAnswer& operator=(const StopAnswer&) = delete;

 private:
  const char* text_before_;
  bool may_cut_before_;
};

// One call of a library may take minutes: where a signal came more than 1.5 seconds ago, when nothing could be lost,
// temporary files are removed and the process ends. Called by a thread of its own (report::LiveLine).
void end_if_overdue();

}  // namespace comera
