#include <csignal>

#include "tools/program.h"

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond a file's limit is an error with a sentence, not the end
  return comera::tools::run_program({argv + (argc > 0), argv + argc});
}
