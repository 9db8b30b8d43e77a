// Each file of kernels/cpu adds its ops to the table. backend.cpp calls these functions.
#pragma once

#include "kernels/backend.h"
#include "kernels/cpu/isa.h"

namespace comera::kernels::COMERA_CPU {

void add_attention(Backend& b);
void add_cast(Backend& b);
void add_cross_entropy(Backend& b);
void add_distillation(Backend& b);
void add_elementwise(Backend& b);
void add_embedding(Backend& b);
void add_exact_rows(Backend& b);
void add_linear(Backend& b);
void add_norm(Backend& b);
void add_optimizer(Backend& b);
void add_pooling(Backend& b);
void add_rank_objective(Backend& b);
void add_rotary(Backend& b);
void add_tt_cores(Backend& b);
void add_tt_linear(Backend& b);
void add_ttm_embedding(Backend& b);
void add_ttm_merge(Backend& b);

// result += x^T g. Other backwards use it as well.
Status run_product(const Context& context, const Product& a);
std::size_t product_workspace(const Context& context, const Product& a);

}  // namespace comera::kernels::COMERA_CPU
