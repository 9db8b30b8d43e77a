// The CPU table of one instruction set; compiled once per set with COMERA_ISA naming it.
#include "kernels/backend.h"
