#include "tests/kernels/harness/tracked.h"

#include "kernels/backend.h"
#include "kernels/reference/all.h"

namespace comera::kernels::test {

template <class Args>
void compute_tracked(const Args& args) {
  reference::compute<Tracked>(args);
}

#define COMERA_OP(name, Args) template void compute_tracked(const Args&);
#include "kernels/ops.def"

}  // namespace comera::kernels::test
