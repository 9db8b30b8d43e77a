#include "kernels/backend.h"

namespace comera::kernels {

const Backend& reference_backend() {
  static const Backend backend = [] {
    Backend b;
    b.name = "reference";
    b.memory = host_memory();
    return b;
  }();
  return backend;
}

}  // namespace comera::kernels
