// The origin of a report: time, program, command and machine.
#pragma once

#include <string>

namespace comera::report {

struct Origin {
  std::string time;     // UTC, "2026-01-31T09:05:00Z"
  std::string program;  // "comera 0.1.0 (commit 0123456789ab)"
  std::string command;  // quoted for a shell
  // Name of the processor, number of processors that this process may use, and the instruction sets or GPUs that
  // computed: "AMD EPYC 9J14, 2 processors, v4bf16".
  std::string machine;
};

Origin origin();  // of this process, now
// Adds an instruction set or a GPU to the machine of later origins; each counts once.
void computes_with(const std::string& variant);

}  // namespace comera::report
