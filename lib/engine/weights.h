// A model with the memory that outlives steps: its weights and, for training, the two moments of AdamW.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "lib/layers/model.h"
#include "lib/plan/walk.h"

namespace comera::engine {

using layers::Model;
using layers::Parameter;
using plan::Machine;
using plan::Tensor;

// The bytes of a tensor on the host: the tensor's own memory if the host can read it, else a copy.
class HostBytes {
 public:
  HostBytes(const Machine& machine, const Tensor& tensor);
  std::span<const std::byte> bytes() const { return bytes_; }
  // As a tensor in host memory, for layers::load().
  Tensor tensor() const;

 private:
  std::vector<std::byte> copy_;
  std::span<const std::byte> bytes_;
  Tensor shape_;
};

// Copies host bytes to a whole tensor of the machine.
void write(const Machine& machine, const Tensor& tensor, std::span<const std::byte> bytes);

// Writes random starting values to `data`, the parameters' memory on the machine, and binds the parameters to it.
void initialise(const Machine& machine, layers::Parameters& parameters, void* data, std::uint64_t seed);

class Weights {
 public:
  static constexpr int moments = 2;

  Weights(const Machine& machine, std::unique_ptr<Model> model, bool training);

  Model& model() { return *model_; }
  const Model& model() const { return *model_; }
  const Machine& machine() const { return machine_; }
  bool training() const { return training_; }

  // Allocates bytes() of zeros. Plans and tables are made before and do not need this memory.
  void allocate();        // in a separate arena
  void bind(void* base);  // in an existing block
  bool allocated() const { return base_ != nullptr; }
  // Moves the weights from device memory to host memory. The device memory may be freed afterwards.
  void move_to_host();
  // Random weights; moments stay zero.
  void initialise(std::uint64_t seed);

  // Moment 0 or 1 of the parameter with that index.
  Tensor moment(int which, int index) const { return moment_slab_[moments * index + which]; }
  const plan::Slab& moment_slab() const { return moment_slab_; }
  std::size_t bytes() const { return model_->parameters().bytes() + moment_slab_.bytes(); }

 private:
  Machine machine_;
  std::unique_ptr<Model> model_;
  bool training_;
  plan::Slab moment_slab_;
  plan::Arena arena_;
  std::byte* base_ = nullptr;
};

}  // namespace comera::engine
