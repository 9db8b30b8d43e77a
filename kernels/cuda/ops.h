// One function per file of kernels/cuda: it adds the file's ops to the table. backend.cu calls them all.
#pragma once

#include "kernels/backend.h"
#include "kernels/cuda/device.h"

namespace comera::kernels::cuda {

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

}  // namespace comera::kernels::cuda
