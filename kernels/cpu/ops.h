// Functions that set the entries of the CPU table, one per op of kernels/ops.def. The file of an op defines its
// function; backend.cpp calls them all, that of bf16 calls those of ops with activations. For an op that this backend
// lacks, the function is empty.
#pragma once

#include "kernels/backend.h"
#include "kernels/cpu/common/isa.h"

namespace comera::kernels::COMERA_CPU {

#define COMERA_OP(name, Args) void bind(Op<Args>& op);
#include "kernels/ops.def"

// result += x^T g. Other backwards use it as well.
Status run_product(const Context& context, const Product& a);
std::size_t product_workspace(const Context& context, const Product& a);

}  // namespace comera::kernels::COMERA_CPU
