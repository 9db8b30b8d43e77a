// The backend of tests without a table of cases: the CUDA emulator, except while an OnColumn lives.
#pragma once

#include "kernels/cuda/common/runtime.h"
#include "tests/kernels/harness/harness.h"

namespace comera::kernels::cuda {

struct Place {
  std::string name = "cuda emulator";
  const Backend* backend = &table();
  void* stream = nullptr;
};
inline Place& place() {
  static Place now;
  return now;
}
inline const Backend& backend() { return *place().backend; }
inline bool on_emulator() { return place().backend == &table(); }

class OnColumn {
 public:
  explicit OnColumn(const test::Column& column) { place() = {column.name, column.backend, column.stream}; }
  ~OnColumn() { place() = {}; }
  OnColumn(const OnColumn&) = delete;
  OnColumn& operator=(const OnColumn&) = delete;
};

// Runs `body` on the emulator, and on the GPU if there is one.
template <class Body>
void on_devices(const Body& body) {
  for (const test::Column& column : test::columns()) {
    if (!column.on_device()) continue;
    const OnColumn on(column);
    body();
  }
}
// The same, and on the CPU if it has bf16 kernels.
template <class Body>
void on_bf16_backends(const Body& body) {
  for (const test::Column& column : test::columns()) {
    if (!column.has_bf16()) continue;
    INFO(column.name);
    const OnColumn on(column);
    body();
  }
}

// Waits for a device; the host computes at once.
inline Status wait_for(const Backend& backend, const Context& context) {
  return backend.device.wait ? backend.device.wait(context) : Status::ok;
}

}  // namespace comera::kernels::cuda
