// Tensors and calls of the evaluator's operators.
#pragma once

#include <onnx.pb.h>

#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "lib/core/error.h"

namespace comera::exporting {

using Dims = std::vector<std::int64_t>;

inline std::int64_t count_of(const Dims& dims) {
  return std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>());
}

// T is the type of reals.
template <class T>
struct ValueOf {
  Dims dims = {};
  bool is_real = true;
  std::vector<T> reals = {};
  std::vector<std::int64_t> integers = {};

  std::int64_t count() const { return count_of(dims); }
  static ValueOf of_reals(Dims dims) {
    ValueOf value{std::move(dims), true, {}, {}};
    value.reals.resize(static_cast<std::size_t>(value.count()));
    return value;
  }
  static ValueOf of_integers(Dims dims) {
    ValueOf value{std::move(dims), false, {}, {}};
    value.integers.resize(static_cast<std::size_t>(value.count()));
    return value;
  }
  static ValueOf like(Dims dims, const ValueOf& other) {
    return other.is_real ? of_reals(std::move(dims)) : of_integers(std::move(dims));
  }
};

// A node with its inputs. Absent optional inputs are null.
template <class T>
struct Call {
  const onnx::NodeProto& node;
  std::vector<const ValueOf<T>*> inputs;

  const ValueOf<T>& in(std::size_t index) const {
    if (index >= inputs.size() || !inputs[index])
      fail_input("[export] node {} ({}) lacks its input {}", node.name(), node.op_type(), index);
    return *inputs[index];
  }
  bool has(std::size_t index) const { return index < inputs.size() && inputs[index]; }
  const onnx::AttributeProto* attribute(const char* name) const {
    for (const onnx::AttributeProto& one : node.attribute())
      if (one.name() == name) return &one;
    return nullptr;
  }
  std::int64_t integer(const char* name, std::int64_t otherwise) const {
    const onnx::AttributeProto* found = attribute(name);
    return found ? found->i() : otherwise;
  }
  [[noreturn]] void fail(const std::string& what) const {
    fail_input("[export] node {} ({}): {}", node.name(), node.op_type(), what);
  }
  // The axis counted from the front.
  std::size_t axis(std::int64_t given, std::size_t dims) const {
    const std::int64_t found = given < 0 ? given + static_cast<std::int64_t>(dims) : given;
    if (found < 0 || found >= static_cast<std::int64_t>(dims)) fail("its axis is out of range");
    return static_cast<std::size_t>(found);
  }
};

// Functions that find an operator by name. Null if unknown.
template <class T>
using Operator = ValueOf<T> (*)(const Call<T>&);
template <class T>
Operator<T> find_arithmetic(const std::string& op);  // element by element, products, sums, softmax, norms
template <class T>
Operator<T> find_quantised(const std::string& op);  // weights on grids
template <class T>
Operator<T> find_shaping(const std::string& op);  // moves elements or makes them from shapes

}  // namespace comera::exporting
