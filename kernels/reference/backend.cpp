// The table of the reference backend: one template per op, instantiated for every scalar type.
#include "kernels/backend.h"

#include "kernels/reference/all.h"

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

}  // namespace

const Backend& reference_backend() {
  static const Backend backend = [] {
    Backend b;
    b.name = "reference";
    b.memory = host_memory();
#define COMERA_OP(name, Args) b.name.run = run<Args>;
#include "kernels/ops.def"
    return b;
  }();
  return backend;
}

}  // namespace comera::kernels
