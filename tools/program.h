// The program: a list of verbs and the exit code of a call. Each verb is an option table and a function.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/core/options/options.h"

namespace comera::tools {

struct Verb {
  std::string_view name;  // one word, or two ("tokenizer train")
  OptionTable (*table)();
  int (*run)(const OptionValues&);  // the exit code; throws InputError, RunError and Stopped
  // Text of the live line while the verb works; signals then stop its work in an orderly manner. "": the verb may also
  // wait for input, so it has no text. Null: the verb takes no time, and a signal ends it as it ends any program.
  const char* doing = nullptr;
};

std::span<const Verb> verbs();  // tools/verbs.cpp

// Exit code: 0 success, 1 failure during the run, 2 wrong usage or input, 128 + n stopped by signal n. Never throws.
int run_program(std::vector<std::string> arguments);

// Writes to stdout without delay. Throws a RunError if the write fails, for example on a full disk.
void print_out(std::string_view text);

// --json: one object on stdout; all other text goes to stderr.
Option json_option();

}  // namespace comera::tools
