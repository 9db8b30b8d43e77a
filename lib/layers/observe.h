// A look at what dense linear layers read, for those who measure a model (calibration, statistics); layers pay one test
// per call.
#pragma once

#include <string>

#include "lib/plan/walk.h"

namespace comera::layers {

class InputObserver {
 public:
  virtual ~InputObserver() = default;
  // x [K, M], read by the dense layer of this name (without ".weight"), while a walk computes. May end the walk by an
  // exception.
  virtual void see(const std::string& layer, const plan::Tensor& x) = 0;
  // What the layer that was seen last gives, bias included, is about to be added to this residual stream, both [K, N].
  virtual void join(const plan::Tensor& stream, const plan::Tensor& given) {
    static_cast<void>(stream), static_cast<void>(given);
  }
  // A block of a stack begins; true: it need not compute, because leave() writes what it gives.
  virtual bool enter(std::size_t block) { return static_cast<void>(block), false; }
  // What it gives to the next one: what that reads and, where norms stand before the branches, the residual stream;
  // else empty.
  virtual void leave(std::size_t block, plan::Tensor& normed, plan::Tensor& stream) {
    static_cast<void>(block), static_cast<void>(normed), static_cast<void>(stream);
  }
};

// While it lives, the layers that this thread runs show their inputs.
class ObserveInputs {
 public:
  explicit ObserveInputs(InputObserver& observer);
  ~ObserveInputs();
  ObserveInputs(const ObserveInputs&) = delete;
  ObserveInputs& operator=(const ObserveInputs&) = delete;

 private:
  InputObserver* before_;
};

InputObserver* input_observer();  // of this thread; null where nobody looks

}  // namespace comera::layers
