// Copies of parameters in the activation dtype.
#include "kernels/cast.h"

#include <cstring>

#include "kernels/cpu/common/many_tensors.h"
#include "kernels/cpu/common/workspace.h"
#include "kernels/cpu/ops.h"

namespace comera::kernels::COMERA_CPU {
namespace {

Status run(const Context& context, const Cast& a) {
  if (context.dtype != DType::f32) return Status::unsupported_dtype;
  for_many(context, a.tensors, a.count, [](const CastTensor& t, std::int64_t begin, std::int64_t end, std::int64_t) {
    std::memcpy(f32(t.to) + begin, f32(t.from) + begin, static_cast<std::size_t>(end - begin) * sizeof(float));
  });
  return Status::ok;
}

}  // namespace

void bind(Op<Cast>& op) { op.run = run; }

}  // namespace comera::kernels::COMERA_CPU
