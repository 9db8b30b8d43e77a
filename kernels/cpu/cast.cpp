// Copies of parameters in the activation dtype.
#include "kernels/cast.h"

#include "kernels/cpu/common/element.h"
#include "kernels/cpu/common/many_tensors.h"
#include "kernels/cpu/common/workspace.h"
#include "kernels/cpu/ops.h"

namespace comera::kernels::COMERA_CPU {
namespace {

Status run(const Context& context, const Cast& a) {
  if (context.dtype != element_type) return Status::unsupported_dtype;
  for_many(context, a.tensors, a.count, [](const CastTensor& t, std::int64_t begin, std::int64_t end, std::int64_t) {
    sweep(begin, end,
          [&](std::int64_t i, auto lanes) { store(elements(t.to) + i, load(f32(t.from) + i, lanes), lanes); });
  });
  return Status::ok;
}

}  // namespace

void bind(Op<Cast>& op) { op.run = run; }

}  // namespace comera::kernels::COMERA_CPU
