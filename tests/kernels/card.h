// The card of this machine for tests, where there is one and the backend's library is built.
#pragma once

#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda_devices.h"

namespace comera::kernels::test {

struct Card {
  const Backend* backend = nullptr;  // null: none, and `why` says so
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

// Opened once for a test program.
inline const Card& card() {
  static const Card opened = open_card();
  return opened;
}

}  // namespace comera::kernels::test
