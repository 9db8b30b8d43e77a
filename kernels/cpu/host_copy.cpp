// Copies beside a queue: here they are done at once.
#include "kernels/host_copy.h"

#include <cstring>

#include "kernels/cpu/common/isa.h"
#include "kernels/cpu/ops.h"

namespace comera::kernels::COMERA_CPU {
namespace {

Status run(const Context&, const HostCopy& a) {
  if (a.bytes > 0) std::memcpy(a.to, a.from, a.bytes);
  return Status::ok;
}

Status run(const Context&, const HostJoin&) { return Status::ok; }

}  // namespace

void bind(Op<HostCopy>& op) { op.run = run; }
void bind(Op<HostJoin>& op) { op.run = run; }

}  // namespace comera::kernels::COMERA_CPU
