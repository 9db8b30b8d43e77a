// The table of the reference backend: one template per op, instantiated for every scalar type.
#include "kernels/backend.h"

#include "kernels/reference/attention.h"
#include "kernels/reference/cast.h"
#include "kernels/reference/cross_entropy.h"
#include "kernels/reference/distillation.h"
#include "kernels/reference/elementwise.h"
#include "kernels/reference/embedding.h"
#include "kernels/reference/exact_rows.h"
#include "kernels/reference/linear.h"
#include "kernels/reference/norm.h"
#include "kernels/reference/optimizer.h"
#include "kernels/reference/pooling.h"
#include "kernels/reference/rank_objective.h"
#include "kernels/reference/rotary.h"
#include "kernels/reference/tt_cores.h"
#include "kernels/reference/tt_linear.h"
#include "kernels/reference/ttm_embedding.h"
#include "kernels/reference/ttm_merge.h"

namespace comera::kernels {
namespace {

template <class Args>
Status run(const Context& context, const Args& args) {
  switch (context.dtype) {
    case DType::f32: reference::compute<float>(args); return Status::ok;
    case DType::f64: reference::compute<double>(args); return Status::ok;
    case DType::c128: reference::compute<std::complex<double>>(args); return Status::ok;
    default: return Status::unsupported_dtype;
  }
}

template <class Args>
void set(Op<Args>& op, const char* name) {
  op = {name, run<Args>, nullptr};
}

void set_layers(Backend& b) {
  set(b.linear_forward, "linear_forward");
  set(b.linear_backward, "linear_backward");
  set(b.product, "product");
  set(b.matmul, "matmul");
  set(b.cast, "cast");
  set(b.tt_linear_forward, "tt_linear_forward");
  set(b.tt_linear_backward, "tt_linear_backward");
  set(b.tt_merge, "tt_merge");
  set(b.tt_merge_backward, "tt_merge_backward");
  set(b.embedding_forward, "embedding_forward");
  set(b.embedding_backward, "embedding_backward");
  set(b.ttm_merge, "ttm_merge");
  set(b.ttm_merge_backward, "ttm_merge_backward");
  set(b.ttm_forward, "ttm_forward");
  set(b.ttm_backward, "ttm_backward");
  set(b.exact_rows_forward, "exact_rows_forward");
  set(b.exact_rows_backward, "exact_rows_backward");
  set(b.norm_forward, "norm_forward");
  set(b.norm_apply, "norm_apply");
  set(b.norm_backward, "norm_backward");
  set(b.rotary_table, "rotary_table");
  set(b.rotary, "rotary");
  set(b.attention_forward, "attention_forward");
  set(b.attention_backward, "attention_backward");
}

void set_elementwise(Backend& b) {
  set(b.activation_forward, "activation_forward");
  set(b.activation_backward, "activation_backward");
  set(b.gated_forward, "gated_forward");
  set(b.gated_backward, "gated_backward");
  set(b.dropout, "dropout");
  set(b.fill, "fill");
  set(b.add_scaled, "add_scaled");
  set(b.gather_rows, "gather_rows");
  set(b.scatter_rows, "scatter_rows");
  set(b.pool_forward, "pool_forward");
  set(b.pool_backward, "pool_backward");
}

void set_training(Backend& b) {
  set(b.cross_entropy_chunk, "cross_entropy_chunk");
  set(b.cross_entropy_loss, "cross_entropy_loss");
  set(b.cross_entropy_backward, "cross_entropy_backward");
  set(b.vector_distance, "vector_distance");
  set(b.vector_distance_backward, "vector_distance_backward");
  set(b.divergence_chunk, "divergence_chunk");
  set(b.divergence_loss, "divergence_loss");
  set(b.divergence_backward, "divergence_backward");
  set(b.adamw, "adamw");
  set(b.square_sum, "square_sum");
  set(b.clip_gradient, "clip_gradient");
  set(b.rank_measure, "rank_measure");
  set(b.rank_penalty_gradient, "rank_penalty_gradient");
  set(b.weigh_gradient, "weigh_gradient");
}

}  // namespace

const Backend& reference_backend() {
  static const Backend backend = [] {
    Backend b;
    b.name = "reference";
    b.memory = host_memory();
    set_layers(b);
    set_elementwise(b);
    set_training(b);
    return b;
  }();
  return backend;
}

}  // namespace comera::kernels
