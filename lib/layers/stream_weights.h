// Dense weights as products read them: the parameters themselves, or, where the stream is of another type, copies in
// that type.
#pragma once

#include <vector>

#include "kernels/cast.h"
#include "lib/layers/parameter.h"
#include "lib/plan/walk.h"

namespace comera::layers {

using plan::Walk;

// The numbers of a parameter for a call that comes at once, wherever they are kept.
const Tensor& brought(const Walk& walk, Parameter& parameter);

class StreamWeights {
 public:
  explicit StreamWeights(DType stream) : stream_(stream) {}

  // A number to ask of() with.
  int add(Parameter* weight);
  // For a call that comes at once.
  Tensor of(const Walk& walk, int weight) const {
    return copied() ? copies_[weight] : brought(walk, *weights_[static_cast<std::size_t>(weight)]);
  }
  // Makes all copies anew; where a version of the weights begins to be used.
  void prepare(Walk& walk);
  // Memory of the copies; empty where there are none.
  plan::Slab& copies() { return copies_; }
  const plan::Slab& copies() const { return copies_; }

 private:
  bool copied() const { return stream_ != kernels::parameter_type(stream_); }

  DType stream_;
  std::vector<Parameter*> weights_;
  std::vector<kernels::CastTensor> casts_;
  plan::Slab copies_;
};

}  // namespace comera::layers
