// The parameters of a model: named tensors, in the order in which the model was built.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/plan/slab.h"

namespace comera::layers {

using plan::Tensor;

// The groups with separate learning rates: the three of CoMERA's released settings, and tables of embeddings with the
// decoders that are tied to them.
enum class Role : std::uint8_t { core, diagonal, other, table };

// The initial values of a parameter. Normal: mean 0, standard deviation `scale`; uniform: in [-scale, scale]; constant:
// every entry is `scale`.
struct Init {
  enum class Distribution : std::uint8_t { normal, uniform, constant } distribution = Distribution::constant;
  double scale = 0;
};

struct Parameter;
struct Subspace;   // lib/layers/training/subspace.h
struct Direction;  // lib/layers/training/direction.h

// Place of a linear layer in a model, by which activation policies choose.
enum class Place : std::uint8_t {
  other,             // heads, decoders of words, and what is no linear layer
  block,             // a layer of a block
  attention_output,  // the layer of a block that reads the attention's output, which the attention itself keeps
};

// Loads the numbers of parameters that are not permanently in memory.
class ParameterSource {
 public:
  virtual ~ParameterSource() = default;
  // Fills `parameter.value`, which is valid until the next call.
  virtual void bring(Parameter& parameter) = 0;
};

struct Parameter {
  std::string name;                  // the Hugging Face name of that architecture, or its TT form (lib/io/FORMAT.md)
  std::vector<std::string> aliases;  // other names of the same numbers in checkpoints: older names, tied tensors
  Role role = Role::other;
  Shape shape;
  Init init;
  bool decay = false;   // weight decay applies (matrices; not biases, norms or diagonals)
  bool linear = false;  // the weight of a dense linear layer
  // Linear weights are [in x out] in memory and, but for Conv1D, [out x in] in files.
  bool transposed_in_file = false;
  // The sizes in files, where they are others: the same numbers in the order that files have.
  Shape file_shape = {};
  Place place = Place::other;  // of a dense linear weight
  bool decoder = false;        // a table that products alone read: a decoder of words that is tied to no other table
  bool fixed = false;          // it is never trained, and no layer computes its gradient
  double structured_rate = 1;  // of a core: its share of --lr-cores with structured rates (structured_rate.h)
  bool of_table = false;       // a core of a table of embeddings
  bool from_factors = false;   // its gradient appears once per step, from the gradients of the merged factors
  // Its gradient and update are in this subspace; null: they have the parameter's shape. Set before a sink is made.
  std::shared_ptr<const Subspace> subspace;
  // Its layer keeps products of its input with this vector; null: it does not. Set before memory is planned.
  std::shared_ptr<Direction> direction;
  bool beside_subspaces = false;  // its gradient is exact, its update scaled like those of its block in subspaces
  // Its update runs in the backward, as soon as its gradient is finished. A layer opens such a gradient once in a step.
  // Set before a sink is made.
  bool at_once = false;
  std::optional<DType> type;          // of `value`; none: the parameter type of the model. Others are not trained
  std::optional<DType> stored;        // type in exported files; none: that of memory
  int index = -1;                     // in the order of adding
  Tensor value;                       // null until bound
  ParameterSource* source = nullptr;  // loads the value before every use; null: permanently bound

  Shape gradient_shape() const;
};

class Parameters {
 public:
  // The pointer is valid as long as the store. A name may be added once.
  Parameter* add(Parameter parameter);
  Parameter* find(const std::string& name);

  std::deque<Parameter>& all() { return all_; }
  const std::deque<Parameter>& all() const { return all_; }
  // Number of stored numbers that the model computes with. Diagonals are counted separately (`rank_entries`).
  std::int64_t count() const;
  std::int64_t rank_entries() const;
  // The type of most bytes of an exported file.
  DType stored_type() const;
  std::size_t bytes() const { return slab_.bytes(); }
  const plan::Slab& slab() const { return slab_; }

  explicit Parameters(DType dtype) : dtype_(dtype) {}
  void bind(void* memory);
  // Removes these parameters from bytes() and bind(). An update of their numbers is the affair of the source.
  void leave_to(ParameterSource& source, const std::function<bool(const Parameter&)>& which);
  // Counter-based random numbers: a parameter's values depend only on the seed and its own name. Requires host memory.
  void initialise(std::uint64_t seed);

 private:
  DType dtype_;
  std::deque<Parameter> all_;
  plan::Slab slab_;
};

// Converts between host doubles and a tensor of any floating-point type (complex: the real part).
void store(const Tensor& tensor, std::int64_t index, double value);
double load(const Tensor& tensor, std::int64_t index);
// As many numbers as `values` has, from element `first` on.
void load(const Tensor& tensor, std::int64_t first, std::span<double> values);

}  // namespace comera::layers
