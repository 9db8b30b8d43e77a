// The entry of the program.
#include <csignal>

#include "tools/program.h"

int main(int argc, char** argv) {
  // a write beyond the file size limit then fails with an error message instead of a signal
  std::signal(SIGXFSZ, SIG_IGN);
  return comera::tools::run_program({argv + (argc > 0), argv + argc});
}
