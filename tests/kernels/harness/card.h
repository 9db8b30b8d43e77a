// Opens the GPU of this machine for tests, if there is one and the CUDA library is built.
#pragma once

#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/host/cuda_devices.h"

namespace comera::kernels::test {

struct Card {
  const Backend* backend = nullptr;  // null: no GPU, `why` holds the reason
  void* stream = nullptr;
  std::string why;
};

inline Card open_card() {
  Card card;
  std::vector<CudaDevice> devices;
  const CudaState state = cuda_devices(devices);
  if (state != CudaState::ready) {
    card.why = sentence_of(state);
    return card;
  }
  const Backend* backend = cuda_backend(&card.why);
  if (!backend) return card;
  if (backend->device.open(0, &card.stream) == Status::ok) {
    card.backend = backend;
  } else {
    card.why = backend->device.failure();
  }
  return card;
}

// Opened once per test program.
inline const Card& card() {
  static const Card opened = open_card();
  return opened;
}

}  // namespace comera::kernels::test
