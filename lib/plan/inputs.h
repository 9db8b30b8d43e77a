// The host data that the kernels of a step read: a batch and what follows from it, and constants of the model. A model
// lists them before the step with the tensors that its layers use. The owner of the step then binds all of them at
// once, to host memory, or to a device buffer that receives a copy.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "lib/plan/plan.h"

namespace comera::plan {

class Inputs {
 public:
  void clear() {
    items_.clear();
    bytes_ = 0;
  }
  // Lists `host`, which stays in place until the step has read it. `bound` gets its shape now and its address from
  // bind(), and must stay in place as long.
  void add(const TensorView& host, Tensor& bound);
  // Indices as a vector; an empty one makes `bound` empty.
  void add(std::span<const std::int32_t> indices, Tensor& bound);

  // Bytes of a copy, in which each piece is aligned.
  std::size_t bytes() const { return bytes_; }
  // Copies all data to bytes() bytes. Equal data gives equal bytes.
  void copy(std::byte* to) const;
  void bind_to_host();
  void bind_to_copy(std::byte* copy);

 private:
  struct Item {
    TensorView host;
    Tensor* bound;
  };
  std::vector<Item> items_;
  std::size_t bytes_ = 0;
};

}  // namespace comera::plan
