#include "lib/layers/contrastive.h"

#include "kernels/elementwise.h"
#include "kernels/linear.h"

namespace comera::layers {
namespace {

// The second half of the rows.
void* second_half(const Tensor& vectors) { return static_cast<std::byte*>(vectors.data) + vectors.bytes() / 2; }

// y = scale * x for `count` numbers.
void scale_into(Pass& pass, std::int64_t count, double scale, const void* x, void* y) {
  pass.walk.run(pass.backend().fill, kernels::Fill{y, static_cast<std::size_t>(count) * size_of(pass.walk.dtype())});
  pass.walk.run(pass.backend().add_scaled, kernels::AddScaled{count, scale, x, y});
}

}  // namespace

void Contrastive::forward(Pass& pass, StepState& state, const Tensor& vectors) {
  Walk& walk = pass.walk;
  const std::int64_t pairs = vectors.shape[0] / 2, columns = vectors.shape[1];
  scaled_ = walk.make("scaled", {pairs, columns});
  scale_into(pass, pairs * columns, scale, vectors.data, scaled_.data);
  logits_ = walk.make("cosines", {pairs, pairs});
  walk.run(pass.backend().matmul, kernels::MatMul{.m = pairs,
                                                  .n = pairs,
                                                  .k = columns,
                                                  .a = scaled_.data,
                                                  .lda = columns,
                                                  .b = second_half(vectors),
                                                  .ldb = columns,
                                                  .transpose_b = true,
                                                  .c = logits_.data,
                                                  .ldc = pairs});
  loss_.add(pass, logits_, 0, partners_);
  Tensor best = loss_.finish(pass, state, partners_);
  walk.drop(best);
  if (pass.policy.saves()) return;
  loss_.release(pass);
  for (Tensor* tensor : {&scaled_, &logits_}) walk.drop(*tensor);
}

void Contrastive::backward(Pass& pass, const Tensor& vectors, const Tensor& d_vectors) {
  Walk& walk = pass.walk;
  const std::int64_t pairs = vectors.shape[0] / 2, columns = vectors.shape[1];
  loss_.backward(pass, logits_, 0, partners_);
  loss_.release(pass);
  walk.run(pass.backend().matmul, kernels::MatMul{.m = pairs,
                                                  .n = columns,
                                                  .k = pairs,
                                                  .a = logits_.data,
                                                  .lda = pairs,
                                                  .transpose_a = true,
                                                  .b = scaled_.data,
                                                  .ldb = columns,
                                                  .c = second_half(d_vectors),
                                                  .ldc = columns});
  // s u is not needed any more, so its memory takes d_logits v.
  walk.run(pass.backend().matmul, kernels::MatMul{.m = pairs,
                                                  .n = columns,
                                                  .k = pairs,
                                                  .a = logits_.data,
                                                  .lda = pairs,
                                                  .b = second_half(vectors),
                                                  .ldb = columns,
                                                  .c = scaled_.data,
                                                  .ldc = columns});
  scale_into(pass, pairs * columns, scale, scaled_.data, d_vectors.data);
  for (Tensor* tensor : {&scaled_, &logits_}) walk.drop(*tensor);
}

}  // namespace comera::layers
