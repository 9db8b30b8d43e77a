// The table of instruction set v4bf16: the kernels of v4, and for bf16 calls those of this build. A bf16 call without
// activations is an f32 call.
#include "kernels/backend.h"

#include "kernels/cpu/bf16/by_type.h"
#include "kernels/cpu/ops.h"

namespace comera::kernels {

namespace cpu_v4 {
const Backend& table();
}

namespace COMERA_CPU {
namespace {

template <class Args>
struct AsF32 {
  static Op<Args> f32;

  static Context in_f32(Context context) {
    if (context.dtype == DType::bf16) context.dtype = DType::f32;
    return context;
  }
  static Status run(const Context& context, const Args& a) { return f32.run(in_f32(context), a); }
  static std::size_t workspace_bytes(const Context& context, const Args& a) {
    return f32.workspace_bytes ? f32.workspace_bytes(in_f32(context), a) : 0;
  }
};
template <class Args>
Op<Args> AsF32<Args>::f32;

template <class Args>
void join_parameters(Op<Args>& op) {
  AsF32<Args>::f32 = op;
  if (op.run) op.run = AsF32<Args>::run, op.workspace_bytes = AsF32<Args>::workspace_bytes;
}

Backend make_table() {
  Backend b = cpu_v4::table();
#define COMERA_OP(name, Args) join(b.name);
#define COMERA_PARAMETER_OP(name, Args) join_parameters(b.name);
#include "kernels/ops.def"
  return b;
}

}  // namespace

const Backend& table() {
  static const Backend backend = make_table();
  return backend;
}

}  // namespace COMERA_CPU
}  // namespace comera::kernels
