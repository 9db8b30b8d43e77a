// Copies between device and pinned memory on queues of their own.
#include "kernels/cuda/common/runtime.h"
#include "kernels/cuda/ops.h"
#include "kernels/host_copy.h"

namespace comera::kernels::cuda {
namespace {

Status run(const Context& context, const HostCopy& a) { return a.bytes == 0 ? Status::ok : copy_beside(context, a); }
Status run(const Context& context, const HostJoin& a) { return join_beside(context, a); }

}  // namespace

void bind(Op<HostCopy>& op) { op.run = run; }
void bind(Op<HostJoin>& op) { op.run = run; }

}  // namespace comera::kernels::cuda
