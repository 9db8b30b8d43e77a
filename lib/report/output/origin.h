// The origin of a report: time, program, command and machine.
#pragma once

#include <string>

namespace comera::report {

struct Origin {
  std::string time;     // UTC, "2026-01-31T09:05:00Z"
  std::string program;  // "comera 0.1.0 (commit 0123456789ab)"
  std::string command;  // quoted for a shell
  std::string machine;  // name of the processor and number of processors that this process may use
};

Origin origin();  // of this process, now

}  // namespace comera::report
