// The parameters of a model: named tensors, in the order in which the model was built.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/plan/slab.h"

namespace comera::layers {

using plan::Tensor;

// The three groups with learning rates of their own (CoMERA, released settings).
enum class Role : std::uint8_t { core, diagonal, other };

// The start of a parameter. Normal: mean 0, deviation `scale`; uniform: in [-scale, scale]; constant: every entry is
// `scale`.
struct Init {
  enum class Kind : std::uint8_t { normal, uniform, constant } kind = Kind::constant;
  double scale = 0;
};

struct Parameter;

// Brings the numbers of parameters that are not in memory for good.
class ParameterSource {
 public:
  virtual ~ParameterSource() = default;
  // `parameter.value` holds its numbers until the next call.
  virtual void bring(Parameter& parameter) = 0;
};

struct Parameter {
  std::string name;                  // the Hugging Face name of that architecture, or its TT form (lib/io/FORMAT.md)
  std::vector<std::string> aliases;  // other names that checkpoints have for the same numbers: older ones, tied tensors
  Role role = Role::other;
  Shape shape;
  Init init;
  bool decay = false;                 // weight decay applies (matrices; not biases, norms or diagonals)
  bool transposed_in_file = false;    // linear weights are [in x out] in memory and [out x in] in files
  bool from_halves = false;           // its gradient appears once per step, when the halves' gradients are taken apart
  std::optional<DType> stored;        // its type in files that are handed on; none: that of memory
  int index = -1;                     // in the order of adding
  Tensor value;                       // null until bound
  ParameterSource* source = nullptr;  // brings the value before every use; null: it is bound for good
};

class Parameters {
 public:
  // The pointer stays good as long as the store. A name may be added once.
  Parameter* add(Parameter parameter);
  Parameter* find(const std::string& name);

  std::deque<Parameter>& all() { return all_; }
  const std::deque<Parameter>& all() const { return all_; }
  // Numbers that are stored for the model to work: diagonals are counted apart (`rank_entries`).
  std::int64_t count() const;
  std::int64_t rank_entries() const;
  // The type that most bytes of a file handed on have.
  DType stored_type() const;
  std::size_t bytes() const { return slab_.bytes(); }
  const plan::Slab& slab() const { return slab_; }

  explicit Parameters(DType dtype) : dtype_(dtype) {}
  void bind(void* memory);
  // These take no part in bytes() and bind() any more. For models that evaluate.
  void leave_to(ParameterSource& source, const std::function<bool(const Parameter&)>& which);
  // Random numbers by counter: a parameter's values depend on the seed and its own name alone. Memory must be the
  // host's.
  void initialise(std::uint64_t seed);

 private:
  DType dtype_;
  std::deque<Parameter> all_;
  plan::Slab slab_;
};

// Writes host doubles into a tensor of any floating-point type, and reads them (complex: the real part).
void store(const Tensor& tensor, std::int64_t index, double value);
double load(const Tensor& tensor, std::int64_t index);

}  // namespace comera::layers
