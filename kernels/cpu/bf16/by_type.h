// An op of two tables: bf16 calls run that of this build, all others that of another instruction set.
#pragma once

#include "kernels/backend.h"
#include "kernels/cpu/ops.h"

namespace comera::kernels::COMERA_CPU {

// Ops have different structs of a call, so the struct names the op.
template <class Args>
struct ByType {
  static Op<Args> others, bf16;

  static const Op<Args>& of(const Context& context) { return context.dtype == DType::bf16 ? bf16 : others; }
  static Status run(const Context& context, const Args& a) {
    const Op<Args>& op = of(context);
    return op.run ? op.run(context, a) : Status::unsupported_dtype;
  }
  static std::size_t workspace_bytes(const Context& context, const Args& a) {
    const Op<Args>& op = of(context);
    return op.workspace_bytes ? op.workspace_bytes(context, a) : 0;
  }
};
template <class Args>
Op<Args> ByType<Args>::others;
template <class Args>
Op<Args> ByType<Args>::bf16;

// bf16 calls of `op` run the kernel of this build, others what `op` was.
template <class Args>
void join(Op<Args>& op) {
  using Joined = ByType<Args>;
  Joined::others = op;
  bind(Joined::bf16);
  if (!Joined::others.run && !Joined::bf16.run) return;
  op.run = Joined::run, op.workspace_bytes = Joined::workspace_bytes;
}

}  // namespace comera::kernels::COMERA_CPU
