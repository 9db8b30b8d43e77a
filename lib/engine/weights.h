// A model with the memory that outlives steps: its weights and, for training, the state of the optimiser.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/layers/training/model.h"
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

// A tensor that an optimiser keeps per parameter between steps. It is zero at the start.
struct ParameterState {
  std::string name;  // such as "moment1"; the tensor in a checkpoint is "moment1.<parameter>"
  // Shape of the tensor; null: that of the parameter; {0}: this parameter has no such state. When ranks are removed, a
  // tensor of the parameter's shape is sliced with it, and another state of a parameter that is cut becomes zero again.
  std::function<Shape(const Parameter&)> shape = nullptr;
  std::optional<DType> type = {};  // of the elements; empty: that of the parameter
  // Receives the tensor when it has its memory; null: only the update reads it.
  std::function<void(Parameter&, const Tensor&)> bound = nullptr;
};

class Weights {
 public:
  // `state`: of the optimiser; empty for evaluation.
  Weights(const Machine& machine, std::unique_ptr<Model> model, std::vector<ParameterState> state);

  Model& model() { return *model_; }
  const Model& model() const { return *model_; }
  const Machine& machine() const { return machine_; }

  // Allocates bytes() of zeros. Plans and tables are made before and do not need this memory.
  void allocate();        // in a separate arena
  void bind(void* base);  // in an existing block
  bool allocated() const { return base_ != nullptr; }
  // Moves the weights from device memory to host memory. The device memory may be freed afterwards.
  void move_to_host();
  // Random weights; the state stays zero.
  void initialise(std::uint64_t seed);

  const std::vector<ParameterState>& state() const { return state_; }
  // The state of that number of the parameter with that index.
  Tensor state(std::size_t which, int index) const {
    return state_slab_[static_cast<int>(state_.size()) * index + static_cast<int>(which)];
  }
  const plan::Slab& state_slab() const { return state_slab_; }
  std::size_t bytes() const { return model_->parameters().bytes() + state_slab_.bytes(); }

 private:
  Machine machine_;
  std::unique_ptr<Model> model_;
  std::vector<ParameterState> state_;
  plan::Slab state_slab_;
  plan::Arena arena_;
  std::byte* base_ = nullptr;
};

}  // namespace comera::engine
