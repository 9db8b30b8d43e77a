// Observes the inputs of dense linear layers, to measure a model (calibration, statistics). A layer without an observer
// pays one test per call.
#pragma once

#include <cstdint>
#include <string>

#include "lib/plan/walk.h"

namespace comera::layers {

// The product that a dense layer computes in place of x W. The observer owns the memory.
struct Instead {
  bool nothing = false;                          // nobody reads the outputs
  std::int64_t rank = 0;                         // above 0: x left right
  const void *left = nullptr, *right = nullptr;  // [M, R], [R, N]
  void* between = nullptr;                       // [K, R]
};

class InputObserver {
 public:
  virtual ~InputObserver() = default;
  // x [K, M] is the input of the dense layer, or of the decoder of words, of this name (without ".weight") while a walk
  // computes. May end the walk by an exception.
  virtual void see(const std::string& layer, const plan::Tensor& x) = 0;
  // Called after see() of a layer. The default: the layer computes x W. Factors need a backend whose products use no
  // workspace.
  virtual Instead instead(const std::string& layer, std::int64_t tokens) {
    return static_cast<void>(layer), static_cast<void>(tokens), Instead{};
  }
  // `given` is the output of the last observed layer, bias included. It is about to be added to the residual stream
  // `stream`; both [K, N].
  virtual void join(const plan::Tensor& residual, const plan::Tensor& given) {
    static_cast<void>(residual), static_cast<void>(given);
  }
  // The inputs of the first block, in the form of leave().
  virtual void arrive(const plan::Tensor& normed, const plan::Tensor& residual) {
    static_cast<void>(normed), static_cast<void>(residual);
  }
  // Called at the start of a block. Returns true if the block need not compute, because leave() writes its outputs.
  virtual bool enter(std::size_t block) { return static_cast<void>(block), false; }
  // Reads or writes the outputs of a block: the input of the next block and, for models with norms before the branches,
  // the residual stream; else empty.
  virtual void leave(std::size_t block, plan::Tensor& normed, plan::Tensor& residual) {
    static_cast<void>(block), static_cast<void>(normed), static_cast<void>(residual);
  }
};

// During its lifetime, the layers that run on this thread report their inputs to the observer.
class ObserveInputs {
 public:
  explicit ObserveInputs(InputObserver& observer);
  ~ObserveInputs();
  ObserveInputs(const ObserveInputs&) = delete;
  ObserveInputs& operator=(const ObserveInputs&) = delete;

 private:
  InputObserver* before_;
};

InputObserver* input_observer();  // of this thread; null if there is none

}  // namespace comera::layers
