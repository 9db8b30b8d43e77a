#include "lib/export/graph.h"

#include <fmt/core.h>

#include <cmath>

#include "lib/core/error.h"
#include "lib/core/half.h"
#include "lib/core/join.h"
#include "lib/core/version.h"

namespace comera::exporting {
namespace {

using onnx::TensorProto;

// The first message format that supports the opset: 7 came with opset 13, 8 with 15, 9 with 19, 10 with 21.
int message_version(int opset) { return opset >= 21 ? 10 : opset >= 19 ? 9 : opset >= 15 ? 8 : 7; }

void describe(onnx::ValueInfoProto& info, const std::string& name, TensorProto::DataType type,
              const std::vector<Dim>& dims) {
  info.set_name(name);
  onnx::TypeProto::Tensor& tensor = *info.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(type);
  tensor.mutable_shape();
  for (const Dim& dim : dims) {
    auto& one = *tensor.mutable_shape()->add_dim();
    if (const auto* size = std::get_if<std::int64_t>(&dim))
      one.set_dim_value(*size);
    else
      one.set_dim_param(std::get<std::string>(dim));
  }
}

template <class T>
void store(TensorProto& tensor, std::span<const T> values) {
  tensor.mutable_raw_data()->assign(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

std::vector<std::uint16_t> halves_of(const std::string& name, std::span<const float> values) {
  std::vector<std::uint16_t> halves(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    halves[i] = float_to_half(values[i]);
    if ((halves[i] & 0x7c00u) == 0x7c00u && std::isfinite(values[i]))
      fail_input("[export] {}: its entry {} is beyond half precision's 65504; use --dtype fp32", name, values[i]);
  }
  return halves;
}

void set(onnx::AttributeProto& attribute, const Attribute& from) {
  attribute.set_name(from.name);
  if (const auto* integer = std::get_if<std::int64_t>(&from.value)) {
    attribute.set_type(onnx::AttributeProto::INT);
    attribute.set_i(*integer);
  } else if (const auto* real = std::get_if<float>(&from.value)) {
    attribute.set_type(onnx::AttributeProto::FLOAT);
    attribute.set_f(*real);
  } else if (const auto* text = std::get_if<std::string>(&from.value)) {
    attribute.set_type(onnx::AttributeProto::STRING);
    attribute.set_s(*text);
  } else {
    attribute.set_type(onnx::AttributeProto::INTS);
    for (const std::int64_t item : std::get<std::vector<std::int64_t>>(from.value)) attribute.add_ints(item);
  }
}

}  // namespace

const char* name_of(WeightType type) { return type == WeightType::f32 ? "fp32" : "fp16"; }

Graph::Graph(int opset, WeightType weights, std::string prefix)
    : opset_(opset),
      weights_(weights),
      graph_(model_.mutable_graph()),
      prefix_(std::move(prefix)),
      scope_(prefix_.empty() ? "" : prefix_.substr(0, prefix_.size() - 1)) {
  if (prefix_.empty() && (opset < oldest_opset || opset > newest_opset))
    fail_input("[export] --opset {} is out of range; graphs are written for {} to {}", opset, oldest_opset,
               newest_opset);
  model_.set_ir_version(message_version(opset));
  model_.set_producer_name("comera");
  model_.set_producer_version(version().version);
  model_.add_opset_import()->set_version(opset);
  graph_->set_name("main");
}

Name Graph::input(const std::string& name, TensorProto::DataType type, const std::vector<Dim>& dims) {
  describe(*graph_->add_input(), name, type, dims);
  return name;
}

void Graph::output(const Name& value, const std::string& name, const std::vector<Dim>& dims) {
  onnx::NodeProto& last = *graph_->add_node();
  last.set_op_type("Identity");
  last.set_name(name + "/Identity");
  last.add_input(value);
  last.add_output(name);
  describe(*graph_->add_output(), name, TensorProto::FLOAT, dims);
}

void Graph::note(const std::string& key, const std::string& value) {
  onnx::StringStringEntryProto& entry = *model_.add_metadata_props();
  entry.set_key(key);
  entry.set_value(value);
}

TensorProto* Graph::add_initialiser(const std::string& name, std::int32_t type, const std::vector<std::int64_t>& dims) {
  TensorProto* tensor = graph_->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(type);
  for (const std::int64_t dim : dims) tensor->add_dims(dim);
  return tensor;
}

Name Graph::weight(const std::string& name, const std::vector<std::int64_t>& dims, std::span<const float> values) {
  const auto [found, fresh] = constants_.try_emplace("weight " + name, name);
  if (!fresh) return found->second;
  const bool half = weights_ == WeightType::f16;
  TensorProto& tensor = *add_initialiser(name, half ? TensorProto::FLOAT16 : TensorProto::FLOAT, dims);
  if (half && !values.empty()) store<std::uint16_t>(tensor, halves_of(name, values));
  if (!half && !values.empty()) store(tensor, values);
  if (!half) return name;
  found->second = node("Cast", {name}, {{"to", std::int64_t{TensorProto::FLOAT}}});
  return found->second;
}

Name Graph::scalar(float value) {
  const auto [found, fresh] =
      constants_.try_emplace(fmt::format("float {}", value), fmt::format("{}constant_{}", prefix_, value));
  if (fresh) store<float>(*add_initialiser(found->second, TensorProto::FLOAT, {}), std::span(&value, 1));
  return found->second;
}

Name Graph::integers_of(const std::string& name, const std::vector<std::int64_t>& dims,
                        std::span<const std::int64_t> values) {
  const auto [found, fresh] = constants_.try_emplace(name, name);
  if (fresh) store(*add_initialiser(name, TensorProto::INT64, dims), values);
  return found->second;
}

Name Graph::integers(const std::vector<std::int64_t>& values) {
  return integers_of(fmt::format("{}sizes_{}", prefix_, join(values, "_")), {static_cast<std::int64_t>(values.size())},
                     values);
}

Name Graph::integer(std::int64_t value) {
  return integers_of(fmt::format("{}integer_{}", prefix_, value), {}, std::span(&value, 1));
}

Name Graph::indices(const std::string& name, std::span<const std::int32_t> values) {
  const auto [found, fresh] = constants_.try_emplace("indices " + name, name);
  if (fresh) store(*add_initialiser(name, TensorProto::INT32, {static_cast<std::int64_t>(values.size())}), values);
  return name;
}

Name Graph::floats(const std::string& name, std::span<const float> values) {
  const auto [found, fresh] = constants_.try_emplace("floats " + name, name);
  if (fresh) store(*add_initialiser(name, TensorProto::FLOAT, {static_cast<std::int64_t>(values.size())}), values);
  return name;
}

Name Graph::byte(std::uint8_t value) {
  const std::string name = fmt::format("{}byte_{}", prefix_, value);
  const auto [found, fresh] = constants_.try_emplace(name, name);
  if (fresh) store<std::uint8_t>(*add_initialiser(name, TensorProto::UINT8, {}), std::span(&value, 1));
  return found->second;
}

Name Graph::codes(const std::string& name, std::int32_t type, const std::vector<std::int64_t>& dims,
                  std::span<const std::byte> bytes) {
  const auto [found, fresh] = constants_.try_emplace("codes " + name, name);
  if (fresh) store(*add_initialiser(name, type, dims), bytes);
  return name;
}

void Graph::use_domain(const char* domain) {
  for (const onnx::OperatorSetIdProto& known : model_.opset_import())
    if (known.domain() == domain) return;
  onnx::OperatorSetIdProto& import = *model_.add_opset_import();
  import.set_domain(domain);
  import.set_version(1);
}

Name Graph::node(const char* op, const std::vector<Name>& inputs, const std::vector<Attribute>& attributes,
                 const char* domain) {
  std::string name = scope_.empty() ? op : fmt::format("{}/{}", scope_, op);
  if (const int again = used_[name]++) name = fmt::format("{}_{}", name, again);
  onnx::NodeProto& node = *graph_->add_node();
  node.set_op_type(op);
  if (*domain) {
    node.set_domain(domain);
    use_domain(domain);
  }
  node.set_name(name);
  for (const Name& input : inputs) node.add_input(input);
  node.add_output(name);
  for (const Attribute& attribute : attributes) set(*node.add_attribute(), attribute);
  return name;
}

Graph::Scope::Scope(Graph& graph, const std::string& name) : graph_(graph), outer_(graph.scope_) {
  graph.scope_ = graph.scope_.empty() ? name : fmt::format("{}/{}", outer_, name);
}

}  // namespace comera::exporting
