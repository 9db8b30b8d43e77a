#include "tools/program.h"

int main(int argc, char** argv) { return comera::tools::run_program({argv + (argc > 0), argv + argc}); }
