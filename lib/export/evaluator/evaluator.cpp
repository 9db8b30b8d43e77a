#include "lib/export/evaluator/evaluator.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <span>
#include <unordered_map>

#include "lib/core/half.h"
#include "lib/core/terminal/stop.h"
#include "lib/export/evaluator/values.h"

namespace comera::exporting {
namespace {

using onnx::TensorProto;

template <class Stored, class Out, class Convert>
std::vector<Out> read(std::span<const std::byte> raw, Convert&& convert) {
  std::vector<Out> out(raw.size() / sizeof(Stored));
  for (std::size_t i = 0; i < out.size(); ++i) {
    Stored stored{};
    std::memcpy(&stored, raw.data() + i * sizeof(Stored), sizeof(Stored));
    out[i] = static_cast<Out>(convert(stored));
  }
  return out;
}

// Two numbers per byte, the first in its low half.
std::vector<std::int64_t> halves_of_bytes(std::span<const std::byte> raw, std::int64_t count, bool is_signed) {
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto byte = static_cast<unsigned>(raw[static_cast<std::size_t>(i / 2)]);
    const auto code = static_cast<std::int64_t>(byte >> (i % 2 * 4) & 15U);
    out.push_back(is_signed && code >= 8 ? code - 16 : code);
  }
  return out;
}

template <class T>
ValueOf<T> value_of(const TensorProto& tensor, std::span<const std::byte> raw) {
  ValueOf<T> value{{tensor.dims().begin(), tensor.dims().end()}, true, {}, {}};
  const auto same = [](auto x) { return x; };
  switch (tensor.data_type()) {
    case TensorProto::FLOAT: value.reals = read<float, T>(raw, same); break;
    case TensorProto::FLOAT16: value.reals = read<std::uint16_t, T>(raw, half_to_float); break;
    case TensorProto::INT64: value.integers = read<std::int64_t, std::int64_t>(raw, same); break;
    case TensorProto::INT8: value.integers = read<std::int8_t, std::int64_t>(raw, same); break;
    case TensorProto::UINT8: value.integers = read<std::uint8_t, std::int64_t>(raw, same); break;
    case io::onnx_int4:
    case io::onnx_uint4:
      value.integers = halves_of_bytes(raw, value.count(), tensor.data_type() == io::onnx_int4);
      break;
    case TensorProto::INT32: value.integers = read<std::int32_t, std::int64_t>(raw, same); break;
    default:
      fail_input("[export] initialiser {} is of type {}, which is not evaluated", tensor.name(),
                 io::onnx_type_name(tensor.data_type()));
  }
  value.is_real = value.integers.empty();
  if (static_cast<std::int64_t>(value.is_real ? value.reals.size() : value.integers.size()) != value.count())
    fail_input("[export] initialiser {} does not hold the elements of its shape", tensor.name());
  return value;
}

using BytesOf = std::function<std::span<const std::byte>(const TensorProto&)>;

std::span<const std::byte> bytes_inside(const TensorProto& tensor) {
  return std::as_bytes(std::span(tensor.raw_data().data(), tensor.raw_data().size()));
}

template <class T>
class Run {
 public:
  Run(const onnx::GraphProto& graph, const Arrays& inputs, const BytesOf& bytes_of, std::uint64_t noise)
      : graph_(graph), bytes_of_(bytes_of), noise_(noise), random_(noise) {
    for (const TensorProto& tensor : graph.initializer()) initialisers_[tensor.name()] = &tensor;
    for (const onnx::ValueInfoProto& input : graph.input()) take(input.name(), inputs);
    for (int i = 0; i < graph.node_size(); ++i)
      for (const std::string& input : graph.node(i).input()) last_use_[input] = i;
    for (const onnx::ValueInfoProto& output : graph.output()) last_use_[output.name()] = graph.node_size();
  }

  Arrays run() {
    for (int i = 0; i < graph_.node_size(); ++i) step(i);
    Arrays outputs;
    for (const onnx::ValueInfoProto& output : graph_.output()) {
      const ValueOf<T>& value = values_.at(output.name());
      outputs[output.name()] = {value.dims, value.is_real, {value.reals.begin(), value.reals.end()}, value.integers};
    }
    return outputs;
  }

 private:
  void take(const std::string& name, const Arrays& inputs) {
    const auto found = inputs.find(name);
    if (found == inputs.end()) fail_input("[export] the graph's input {} is not given", name);
    const Array& array = found->second;
    values_[name] = {array.dims, array.is_real, {array.reals.begin(), array.reals.end()}, array.integers};
  }

  // An initialiser becomes a value at its first use and is removed after its last use, so that few are unpacked at the
  // same time.
  const ValueOf<T>* find(const std::string& name) {
    if (name.empty()) return nullptr;
    if (const auto found = values_.find(name); found != values_.end()) return &found->second;
    const auto stored = initialisers_.find(name);
    if (stored == initialisers_.end()) fail_input("[export] no node and no initialiser makes {}", name);
    return &(values_[name] = value_of<T>(*stored->second, bytes_of_(*stored->second)));
  }

  void step(int index) {
    check_stop();
    const onnx::NodeProto& node = graph_.node(index);
    Operator<T> run = find_arithmetic<T>(node.op_type());
    if (!run) run = find_quantised<T>(node.op_type());
    const bool rounds = run != nullptr && noise_ != 0;
    if (!run) run = find_shaping<T>(node.op_type());
    if (!run || node.output_size() != 1)
      fail_input("[export] node {}: operator {} is not evaluated", node.name(), node.op_type());
    Call<T> call{node, {}};
    for (const std::string& input : node.input()) find(input);
    for (const std::string& input : node.input()) call.inputs.push_back(find(input));
    ValueOf<T> made = run(call);
    if (rounds)
      for (T& real : made.reals) real *= static_cast<T>(random_() & 1 ? 1 + 0x1p-23 : 1 - 0x1p-23);
    for (const std::string& input : node.input())
      if (last_use_[input] == index) values_.erase(input);
    values_[node.output(0)] = std::move(made);
  }

  const onnx::GraphProto& graph_;
  const BytesOf& bytes_of_;
  std::uint64_t noise_;
  std::mt19937_64 random_;
  std::unordered_map<std::string, const TensorProto*> initialisers_;
  std::unordered_map<std::string, ValueOf<T>> values_;
  std::unordered_map<std::string, int> last_use_;
};

Arrays run(const onnx::ModelProto& model, const Arrays& inputs, Precision precision, std::uint64_t noise,
           const BytesOf& bytes_of) {
  if (precision == Precision::single) return Run<float>(model.graph(), inputs, bytes_of, noise).run();
  return Run<double>(model.graph(), inputs, bytes_of, 0).run();
}

}  // namespace

Arrays evaluate(const onnx::ModelProto& model, const Arrays& inputs, Precision precision, std::uint64_t noise) {
  return run(model, inputs, precision, noise, bytes_inside);
}

Arrays evaluate(io::OnnxFile& file, const Arrays& inputs, Precision precision, std::uint64_t noise) {
  return run(file.model(), inputs, precision, noise, [&](const TensorProto& tensor) { return file.bytes(tensor); });
}

}  // namespace comera::exporting
