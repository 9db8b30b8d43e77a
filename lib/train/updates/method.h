// How one kind of parameters is updated from its finished gradients. A further method is a file here and its name in
// choice.cpp.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "lib/engine/weights.h"
#include "lib/layers/training/step_state.h"

namespace comera::train {

using layers::Parameter;

// A parameter in a step. For a gradient in a subspace `value` is a temporary tensor of zeros, and the update is lifted
// from it.
struct Target {
  const Parameter* parameter = nullptr;
  std::int64_t count = 0;  // of the gradient
  void* value = nullptr;
  void* gradient = nullptr;
  const kernels::AdamwScalars* scalars = nullptr;
  double rate_scale = 1;  // of the scalars' learning rate; methods that move by the rate follow it
};

// Layout of StepState::update.
struct UpdateScalars {
  kernels::AdamwScalars of[layers::roles][2];  // by role; the second of a pair is for parameters with weight decay
  kernels::AdamwScalars table_cores[2];        // Parameter::of_table
  kernels::AdamwScalars beside[2];             // Parameter::beside_subspaces
  kernels::AdamwScalars unit;                  // learning rate 1, without decay
  kernels::AdamwScalars galore;                // times GaloreSettings::scale, without decay
  kernels::AdamwScalars at_once[2];            // Parameter::at_once: times LomoSettings::scale

  // `decays`: with the weight decay of AdamW.
  const kernels::AdamwScalars* group(const Parameter& parameter, bool decays) const {
    return &(parameter.at_once            ? at_once
             : parameter.beside_subspaces ? beside
             : parameter.of_table         ? table_cores
                                          : of[static_cast<int>(parameter.role)])[decays];
  }
};

// The memory of a method's states.
struct States {
  engine::Weights& weights;
  std::size_t first;  // of the method in the weights' list

  template <class T>
  T* of(std::size_t which, const Parameter& parameter) const {
    return static_cast<T*>(weights.state(first + which, parameter.index).data);
  }
};

class Method {
 public:
  virtual ~Method() = default;
  // True if it updates the parameter, which is chosen `by_name` or as one of all. AdamW takes what no other method
  // takes.
  virtual bool takes(const Parameter& parameter, bool by_name) const = 0;
  // InputError if it takes the parameter but cannot update it with its settings.
  virtual void check(const Parameter&) const {}
  // True if it updates a parameter in the backward, as soon as the gradient is finished, and not at the end of the
  // step.
  virtual bool at_once() const { return false; }
  // True if the size of a step is the rate, whatever the size of the gradient is: AdamW's rates and decays fit.
  virtual bool moves_by_rate() const { return false; }
  // The tensors that it keeps for each of its parameters between steps.
  virtual std::vector<engine::ParameterState> state() const = 0;
  // Reads gradients times StepScalars::gradient_scale. Changes nothing if StepScalars::finite is 0. Neither is known in
  // the backward: a method that updates at once uses the sums of kernels/lomo.h instead.
  virtual void run(layers::Walk& walk, layers::StepState* state, std::span<const Target> targets,
                   const States& states) = 0;
};

std::unique_ptr<Method> make_adamw();
// A sum of squared gradients per number, and no state (kernels/adagrad.h).
std::unique_ptr<Method> make_adagrad();
std::unique_ptr<Method> make_sgd();
// Momentum with singular values near 1 (kernels/muon.h).
std::unique_ptr<Method> make_muon();
// Moments in 8 bits (kernels/adamw8.h), of dense linear weights with at least so many elements.
std::unique_ptr<Method> make_adamw8bit(std::int64_t least_elements);
// GaLore (arXiv 2403.03507): the constants of its pretraining are the defaults.
struct GaloreSettings {
  std::int64_t rank = 128, refresh = 200;  // of the subspace; steps between new ones
  double scale = 0.25;                     // of the updates
};
// Adam in the subspace of a gradient's first singular vectors (kernels/galore.h).
std::unique_ptr<Method> make_galore(const GaloreSettings& settings, std::int64_t least_elements, bool in_8_bits);
// One scale per weight from a projection of rank 1 (kernels/apollo.h).
std::unique_ptr<Method> make_apollo_mini(std::int64_t least_elements);

struct LomoSettings {
  double scale = 1;  // of the learning rate of all other parameters
  double clip = 1;   // limit of the norm of each gradient; 0: none
};
// LOMO and AdaLomo (kernels/lomo.h): weights of blocks are updated in the backward, without or with one mean per row
// and column.
std::unique_ptr<Method> make_lomo(double clip, std::int64_t least_elements);
std::unique_ptr<Method> make_adalomo(std::int64_t least_elements);

// A table is no linear weight; it learns unstably with such methods. A decoder of words counts if the user names it.
inline bool is_dense_linear(const Parameter& parameter, bool by_name = false) {
  return parameter.decay && (parameter.linear || (by_name && parameter.decoder));
}

// InputError if --activations compact keeps the weight's gradient in a subspace.
void require_whole_gradient(const Parameter& weight, const char* method);

}  // namespace comera::train
