// The origin of a report: time, program, command and machine.
#pragma once

#include <string>

namespace comera::report {

struct Origin {
  std::string time;     // UTC, "2026-01-31T09:05:00Z"
  std::string program;  // "comera 0.1.0 (commit 0123456789ab)"
  std::string command;  // as a shell would take it
  std::string machine;  // name of the processor and how many of them this process may use
};

Origin origin();  // of this process, now

}  // namespace comera::report
