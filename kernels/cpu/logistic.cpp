// Logistic loss: a few operations in double per row, so a loop without vectors.
#include "kernels/logistic.h"

#include <cmath>

#include "kernels/cpu/common/element.h"
#include "kernels/cpu/ops.h"
#include "kernels/host/thread_pool.h"

namespace comera::kernels::COMERA_CPU {
namespace {

constexpr std::int64_t row_tile = 1024;

Status run(const Context& context, const LogisticLoss& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  double loss = 0, correct = 0;
  for (std::int64_t k = 0; k < a.rows; ++k) {
    if (a.targets[k] < 0) continue;
    const double z = number(elements(a.logits)[k]), above = z > 0 ? z : 0;
    loss += above + std::log1p(std::exp(-std::fabs(z))) - (a.targets[k] == 1 ? z : 0);
    correct += (z > 0) == (a.targets[k] == 1);
  }
  *static_cast<double*>(a.loss) += loss * *a.loss_scale;
  if (a.correct) *a.correct += correct;
  return Status::ok;
}

Status run(const Context& context, const LogisticBackward& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  parallel_for(context, tiles_of(a.rows, row_tile), [&](std::int64_t tile) {
    for (std::int64_t k = tile * row_tile; k < min(a.rows, (tile + 1) * row_tile); ++k) {
      const double p = 1 / (1 + std::exp(-static_cast<double>(number(elements(a.logits)[k]))));
      const double d = a.targets[k] < 0 ? 0 : (p - (a.targets[k] == 1)) * *a.loss_scale;
      set_number(elements(a.d_logits)[k], static_cast<float>(d));
    }
  });
  return Status::ok;
}

}  // namespace

void bind(Op<LogisticLoss>& op) { op.run = run; }
void bind(Op<LogisticBackward>& op) { op.run = run; }

}  // namespace comera::kernels::COMERA_CPU
