// The program: verbs, and how a call ends. Each verb is an option table and a function; main() knows nothing else.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/core/options.h"

namespace comera::tools {

struct Verb {
  std::string_view name;  // one word, or two ("tokenizer train")
  OptionTable (*table)();
  int (*run)(const OptionValues&);  // the exit code; throws InputError, RunError and Stopped
  // What it does all the time, for the live line: signals stop its work. "" where it may also wait for input; null: it
  // takes no time, and a signal ends it as it ends any program.
  const char* doing = nullptr;
};

std::span<const Verb> verbs();  // tools/verbs.cpp

// Exit code: 0 fine, 1 failed while running, 2 wrong usage or input, 128 + n stopped by signal n. Never throws.
int run_program(std::vector<std::string> arguments);

// To stdout, at once; a RunError where that cannot be written (a full disk behind a redirection).
void print_out(std::string_view text);

// --json: one object on stdout, everything else on stderr.
Option json_option();

}  // namespace comera::tools
