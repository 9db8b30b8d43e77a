// Logistic loss of one logit per row; a few operations in double, bound by the launch.
#include "kernels/cuda/common/element.h"
#include "kernels/cuda/common/row_sums.h"
#include "kernels/cuda/ops.h"
#include "kernels/logistic.h"

namespace comera::kernels::cuda {
namespace {

constexpr unsigned logit_threads = 256;

template <class T>
struct LossOfRow {
  LogisticLoss a;

  COMERA_DEVICE void add(std::int64_t row, Sums& sums) const {
    if (a.targets[row] < 0) return;
    const double z = to_float(static_cast<const T*>(a.logits)[row]);
    sums.loss += (z > 0 ? z : 0) + log1p(exp(-fabs(z))) - (a.targets[row] == 1 ? z : 0);
    sums.correct += (z > 0) == (a.targets[row] == 1);
  }
  COMERA_DEVICE void finish(const Sums& sums) const {
    *static_cast<double*>(a.loss) += sums.loss * *a.loss_scale;
    if (a.correct) *a.correct += sums.correct;
  }
};

template <class T>
__global__ void __launch_bounds__(logit_threads) subtract_targets(const LogisticBackward a) {
  begin_kernel();
  for (std::int64_t k = flat_index(); k < a.rows; k += flat_stride()) {
    const double z = to_float(static_cast<const T*>(a.logits)[k]), p = 1 / (1 + exp(-z));
    const double d = a.targets[k] < 0 ? 0 : (p - (a.targets[k] == 1)) * *a.loss_scale;
    static_cast<T*>(a.d_logits)[k] = to_element<T>(static_cast<float>(d));
  }
}

std::size_t loss_workspace(const Context&, const LogisticLoss& a) { return row_sums_workspace(a.rows); }

Status run(const Context& context, const LogisticLoss& a) {
  return with_element(context, [&]<class T>(T) { return sum_rows(context, a.rows, LossOfRow<T>{a}); });
}

Status run(const Context& context, const LogisticBackward& a) {
  return with_element(context, [&]<class T>(T) {
    return launch(context, {grid_for(a.rows, logit_threads), logit_threads}, subtract_targets<T>, a);
  });
}

}  // namespace

void bind(Op<LogisticLoss>& op) { op.run = run, op.workspace_bytes = loss_workspace; }
void bind(Op<LogisticBackward>& op) { op.run = run; }

}  // namespace comera::kernels::cuda
