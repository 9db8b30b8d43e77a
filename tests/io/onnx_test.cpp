#include "lib/io/onnx.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "lib/core/error.h"
#include "lib/core/half.h"
#include "tests/core/seen_tasks.h"
#include "tests/core/temporary_folder.h"

using namespace comera;
using onnx::TensorProto;

namespace {

void add_node(onnx::GraphProto& graph, const char* op, const std::vector<std::string>& inputs,
              const std::string& output) {
  onnx::NodeProto& node = *graph.add_node();
  node.set_op_type(op);
  node.set_name(output);
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(output);
}

TensorProto& add_floats(onnx::GraphProto& graph, const std::string& name, const std::vector<std::int64_t>& dims,
                        const std::vector<float>& values) {
  TensorProto& tensor = *graph.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(TensorProto::FLOAT);
  for (const std::int64_t dim : dims) tensor.add_dims(dim);
  tensor.mutable_raw_data()->assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  return tensor;
}

// y = (x w) + b, with an unknown operator in between.
onnx::ModelProto small_model() {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.add_input()->set_name("x");
  graph.add_output()->set_name("y");
  add_floats(graph, "w", {2, 3}, {1, 2, 3, 4, 5, 6});
  add_floats(graph, "b", {3}, {-1, 0, 1});
  add_node(graph, "MatMul", {"x", "w"}, "xw");
  add_node(graph, "SomethingNew", {"xw"}, "z");
  add_node(graph, "Add", {"z", "b"}, "y");
  return model;
}

std::string refusal(const onnx::ModelProto& model, const std::string& folder = "") {
  try {
    io::parse_onnx(model.SerializeAsString(), "m.onnx", folder);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

void contains(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
}

TensorProto& external(onnx::ModelProto& model, const std::string& location, const std::string& offset,
                      const std::string& length) {
  TensorProto& tensor = *model.mutable_graph()->mutable_initializer(0);
  tensor.clear_raw_data();
  tensor.set_data_location(TensorProto::EXTERNAL);
  for (const auto& [key, value] : {std::pair{"location", location}, {"offset", offset}, {"length", length}}) {
    onnx::StringStringEntryProto& entry = *tensor.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  }
  return tensor;
}

}  // namespace

TEST_CASE("onnx: a model is written, read back and written to the same bytes") {
  const TemporaryFolder folder;
  onnx::ModelProto model = small_model();
  const io::OnnxWritten first = io::write_onnx(folder / "a.onnx", model);
  CHECK(first.bytes == file_size(folder / "a.onnx"));
  CHECK(first.bytes == io::onnx_bytes(model));
  io::OnnxFile file(folder / "a.onnx");
  io::write_onnx(folder / "b.onnx", file.model());
  CHECK(read_file(folder / "a.onnx") == read_file(folder / "b.onnx"));
  CHECK(file.read_floats(file.model().graph().initializer(0)) == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(file.model().graph().node(1).op_type() == "SomethingNew");
}

TEST_CASE("onnx: a model too large for one message moves large initialisers to a data file") {
  const TemporaryFolder folder;
  onnx::ModelProto model = small_model();
  std::vector<float> values(3000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  add_floats(*model.mutable_graph(), "large", {3000}, values);
  add_floats(*model.mutable_graph(), "larger", {3, 1000}, values);
  const std::string before = model.SerializeAsString();
  const io::OnnxWritten written = io::write_onnx(folder / "m.onnx", model, {.message_limit = 8000, .source = nullptr});
  CHECK(model.SerializeAsString() == before);  // the caller's model is restored
  REQUIRE(written.files.size() == 2);
  CHECK(written.bytes == file_size(folder / "m.onnx") + file_size(folder / "m.onnx.data"));
  io::OnnxFile file(folder / "m.onnx");
  const auto& initialisers = file.model().graph().initializer();
  CHECK(initialisers[0].data_location() != TensorProto::EXTERNAL);
  for (const int i : {2, 3}) {
    CHECK(io::onnx_external(initialisers[i], "").offset % 4096 == 0);
    CHECK(file.read_floats(initialisers[i]) == values);
  }
  // A model with external data is written again from its file.
  io::write_onnx(folder / "again.onnx", file.model(), {.message_limit = 8000, .source = &file});
  io::OnnxFile again(folder / "again.onnx");
  CHECK(again.read_floats(again.model().graph().initializer(3)) == values);
}

TEST_CASE("onnx: the writing of a graph is a task in bytes") {
  const TemporaryFolder folder;
  onnx::ModelProto model = small_model();
  for (const char* name : {"one", "two", "three", "four"})
    add_floats(*model.mutable_graph(), name, {1 << 22}, std::vector<float>(1 << 22));
  for (const std::uint64_t limit : {std::uint64_t{1000}, std::uint64_t{1} << 31}) {
    SeenTasks seen;
    const std::uint64_t bytes = io::onnx_bytes(model);
    io::write_onnx(folder / "m.onnx", model, {.message_limit = limit, .source = nullptr});
    const TaskView& task = seen.end().at("writing m.onnx");
    CHECK(task.unit == TaskUnit::bytes);
    CHECK(task.of == static_cast<std::int64_t>(bytes));
    CHECK(task.done > 0);
  }
}

TEST_CASE("onnx: the size of a graph is computed before its initialisers have data") {
  const TemporaryFolder folder;
  for (const std::int64_t size : {10, 126, 3000, 100000}) {
    onnx::ModelProto full = small_model();
    add_floats(*full.mutable_graph(), "more", {size}, std::vector<float>(static_cast<std::size_t>(size)));
    add_floats(*full.mutable_graph(), "none", {0}, {});
    add_floats(*full.mutable_graph(), "most", {2, size}, std::vector<float>(static_cast<std::size_t>(2 * size)));
    onnx::NodeProto& choice = *full.mutable_graph()->add_node();
    choice.set_op_type("If");
    onnx::GraphProto& branch = *choice.add_attribute()->mutable_g();
    add_floats(branch, "inside", {size}, std::vector<float>(static_cast<std::size_t>(size)));
    *branch.add_node()->add_attribute()->mutable_t() = branch.initializer(0);
    onnx::ModelProto declared = full;
    for (TensorProto* tensor : io::onnx_tensors(*declared.mutable_graph()))
      if (tensor->name() != "none" && tensor->dims(tensor->dims_size() - 1) == size) tensor->clear_raw_data();
    CHECK(declared.ByteSizeLong() < full.ByteSizeLong());
    for (const std::uint64_t limit : {std::uint64_t{1000}, std::uint64_t{1} << 31}) {
      const io::OnnxWriting writing{.message_limit = limit, .source = nullptr};
      CHECK(io::planned_onnx_bytes(declared, "m.onnx", writing) ==
            io::write_onnx(folder / "m.onnx", full, writing).bytes);
      CHECK(io::planned_onnx_bytes(full, "m.onnx", writing) == io::planned_onnx_bytes(declared, "m.onnx", writing));
    }
  }
}

TEST_CASE("onnx: floats are read from every field") {
  const TemporaryFolder folder;
  onnx::ModelProto model = small_model();
  TensorProto& typed = *model.mutable_graph()->add_initializer();
  typed.set_name("typed");
  typed.set_data_type(TensorProto::FLOAT);
  typed.add_dims(2);
  typed.add_float_data(1.5F);
  typed.add_float_data(-2.0F);
  TensorProto& half = *model.mutable_graph()->add_initializer();
  half.set_name("half");
  half.set_data_type(TensorProto::FLOAT16);
  half.add_dims(1);
  half.add_int32_data(float_to_half(0.25F));
  io::write_onnx(folder / "m.onnx", model);
  io::OnnxFile file(folder / "m.onnx");
  CHECK(file.read_floats(file.model().graph().initializer(2)) == std::vector<float>{1.5F, -2.0F});
  CHECK(file.read_floats(file.model().graph().initializer(3)) == std::vector<float>{0.25F});
}

TEST_CASE("onnx: inconsistent graphs are refused") {
  CHECK(refusal(small_model()) == "accepted");
  onnx::ModelProto model = small_model();
  model.mutable_graph()->mutable_node(0)->set_input(0, "z");
  contains(refusal(model), "cycle");
  model = small_model();
  model.mutable_graph()->mutable_node(0)->set_input(0, "nowhere");
  contains(refusal(model), "nothing makes");
  model = small_model();
  model.mutable_graph()->mutable_node(1)->set_output(0, "xw");
  contains(refusal(model), "exists already");
  model = small_model();
  model.mutable_graph()->mutable_initializer(1)->set_name("w");
  contains(refusal(model), "used twice");
  model = small_model();
  model.mutable_graph()->mutable_output(0)->set_name("lost");
  contains(refusal(model), "made by no node");
  model = small_model();
  model.clear_opset_import();
  contains(refusal(model), "opset_import");
  contains(refusal(onnx::ModelProto()), "no ONNX graph");
}

TEST_CASE("initialisers hold what their shapes say") {
  onnx::ModelProto model = small_model();
  TensorProto& tensor = *model.mutable_graph()->mutable_initializer(0);
  tensor.set_dims(0, std::int64_t{1} << 40);
  contains(refusal(model), "but 24 are there");
  tensor.set_dims(1, std::int64_t{1} << 40);
  contains(refusal(model), "larger than any file");
  tensor.set_dims(0, -1);
  contains(refusal(model), "negative");
  tensor.set_dims(0, 0);
  contains(refusal(model), "take 0 bytes");
  model = small_model();
  model.mutable_graph()->mutable_initializer(0)->clear_raw_data();
  contains(refusal(model), "but 0 are there");
}

TEST_CASE("onnx: an initialiser may use only one data field") {
  const auto refused = [](const std::function<void(TensorProto&)>& change) {
    onnx::ModelProto model = small_model();
    change(*model.mutable_graph()->mutable_initializer(0));
    contains(refusal(model), "more than one field");
  };
  refused([](TensorProto& tensor) { tensor.add_float_data(1); });
  refused([](TensorProto& tensor) { tensor.add_int32_data(1); });
  refused([](TensorProto& tensor) { tensor.set_data_location(TensorProto::EXTERNAL); });
  refused([](TensorProto& tensor) {
    const std::int64_t elements = tensor.dims(0) * tensor.dims(1);
    tensor.clear_raw_data();
    for (std::int64_t i = 0; i < elements; ++i) tensor.add_float_data(1);
    tensor.add_double_data(2);
  });
}

TEST_CASE("external data stays inside the folder of the model") {
  const TemporaryFolder folder;
  write_file_atomic(folder / "data", std::string(40, 'x'));
  const auto with = [&](const std::string& location, const std::string& offset, const std::string& length) {
    onnx::ModelProto model = small_model();
    external(model, location, offset, length);
    return refusal(model, folder.path());
  };
  CHECK(with("data", "8", "24") == "accepted");
  contains(with("../data", "0", "24"), "inside the model's folder");
  contains(with("/etc/passwd", "0", "24"), "inside the model's folder");
  contains(with("", "0", "24"), "inside the model's folder");
  contains(with("missing", "0", "24"), "is missing");
  contains(with("data", "20", "24"), "ends at byte 44");
  contains(with("data", "18446744073709551615", "24"), "offset");
  contains(with("data", "-1", "24"), "offset");
  contains(with("data", "0", "25"), "but 25 are there");
}

TEST_CASE("onnx: bytes that are no message are refused") {
  CHECK_THROWS_AS(io::parse_onnx("not a message", "m.onnx"), InputError);
  const std::string whole = small_model().SerializeAsString();
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    try {
      io::parse_onnx(std::string_view(whole).substr(0, cut), "m.onnx");
    } catch (const InputError&) {
    }
  }
}
