// Writes ONNX files.
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <exception>

#include "lib/core/error.h"
#include "lib/core/terminal/task_progress.h"
#include "lib/io/onnx.h"

namespace comera::io {
namespace {

using onnx::TensorProto;

constexpr std::uint64_t page = 4096;  // runtimes map the data file: offsets are multiples of a page (ExternalData.md)
constexpr std::size_t smallest_external = 1024;  // smaller tensors stay in the message

class WriterStream final : public google::protobuf::io::CopyingOutputStream {
 public:
  WriterStream(FileWriter& writer, TaskProgress& task) : writer_(&writer), task_(&task) {}
  // protobuf is not prepared for exceptions: while one unwinds its stream, it would write again.
  bool Write(const void* data, int bytes) override {
    try {
      writer_->write(data, static_cast<std::size_t>(bytes));
      task_->advance(bytes);
      return true;
    } catch (...) {
      failure_ = std::current_exception();
      return false;
    }
  }

  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  FileWriter* writer_;
  TaskProgress* task_;
  std::exception_ptr failure_;
};

void write_message(const std::string& path, const onnx::ModelProto& model, TaskProgress& task) {
  AtomicFile file(path);
  WriterStream stream(file.writer(), task);
  google::protobuf::io::CopyingOutputStreamAdaptor adaptor(&stream);
  bool fine = false;
  {
    google::protobuf::io::CodedOutputStream coded(&adaptor);
    coded.SetSerializationDeterministic(true);
    fine = model.SerializeToCodedStream(&coded);
  }
  const bool flushed = adaptor.Flush();
  stream.rethrow();
  if (!flushed || !fine)
    fail_run("{}: the graph itself, without its weights, is beyond the 2 GiB of an ONNX message", path);
  file.commit();
}

void set_external(TensorProto& tensor, const std::string& location, std::uint64_t offset, std::uint64_t length) {
  tensor.clear_raw_data();
  tensor.clear_external_data();
  tensor.set_data_location(TensorProto::EXTERNAL);
  const auto add = [&](const char* key, std::string value) {
    onnx::StringStringEntryProto& entry = *tensor.add_external_data();
    entry.set_key(key);
    entry.set_value(std::move(value));
  };
  add("location", location);
  add("offset", std::to_string(offset));
  add("length", std::to_string(length));
}

bool is_large(const TensorProto& tensor) {
  return tensor.data_location() == TensorProto::EXTERNAL ||
         (tensor.has_raw_data() && tensor.raw_data().size() >= smallest_external);
}

std::uint64_t data_bytes(const TensorProto& tensor) {
  const auto elements = static_cast<std::uint64_t>(onnx_elements(tensor, tensor.name()));
  return onnx_raw_bytes(tensor.data_type(), elements).value_or(0);
}

std::uint64_t external_bytes(const onnx::ModelProto& model) {
  std::uint64_t total = 0;
  for (const TensorProto* tensor : onnx_tensors(model.graph()))
    if (tensor->data_location() == TensorProto::EXTERNAL) total += data_bytes(*tensor);
  return total;
}

std::uint64_t varint_bytes(std::uint64_t value) { return google::protobuf::io::CodedOutputStream::VarintSize64(value); }

bool is_declared(const TensorProto& tensor) {
  return data_bytes(tensor) > 0 && !tensor.has_raw_data() && tensor.data_location() != TensorProto::EXTERNAL &&
         tensor.float_data_size() == 0 && tensor.int32_data_size() == 0 && tensor.int64_data_size() == 0 &&
         tensor.double_data_size() == 0 && tensor.uint64_data_size() == 0 && tensor.string_data_size() == 0;
}

// Growth of a message when an inner message of `bytes` bytes grows by `more`. The length field may grow too.
std::uint64_t growth(std::uint64_t bytes, std::uint64_t more) {
  return more + varint_bytes(bytes + more) - varint_bytes(bytes);
}

// Bytes by which declared data would extend a message.
std::uint64_t missing_bytes(const TensorProto& tensor) {
  return is_declared(tensor) ? 1 + varint_bytes(data_bytes(tensor)) + data_bytes(tensor) : 0;
}

std::uint64_t missing_bytes(const onnx::GraphProto& graph);

std::uint64_t missing_bytes(const onnx::AttributeProto& attribute) {
  std::uint64_t more = 0;
  const auto add = [&](const auto& part) {
    if (const std::uint64_t missing = missing_bytes(part)) more += growth(part.ByteSizeLong(), missing);
  };
  if (attribute.has_t()) add(attribute.t());
  for (const TensorProto& tensor : attribute.tensors()) add(tensor);
  if (attribute.has_g()) add(attribute.g());
  for (const onnx::GraphProto& graph : attribute.graphs()) add(graph);
  return more;
}

std::uint64_t missing_bytes(const onnx::NodeProto& node) {
  std::uint64_t more = 0;
  for (const onnx::AttributeProto& attribute : node.attribute())
    if (const std::uint64_t missing = missing_bytes(attribute)) more += growth(attribute.ByteSizeLong(), missing);
  return more;
}

std::uint64_t missing_bytes(const onnx::GraphProto& graph) {
  std::uint64_t more = 0;
  for (const TensorProto& tensor : graph.initializer())
    if (const std::uint64_t missing = missing_bytes(tensor)) more += growth(tensor.ByteSizeLong(), missing);
  for (const onnx::NodeProto& node : graph.node())
    if (const std::uint64_t missing = missing_bytes(node)) more += growth(node.ByteSizeLong(), missing);
  return more;
}

// Size of the message with its declared data filled in.
std::uint64_t filled_message_bytes(const onnx::ModelProto& model) {
  return model.ByteSizeLong() + growth(model.graph().ByteSizeLong(), missing_bytes(model.graph()));
}

// Selects tensors for the data file: large initialisers of the main graph, and every tensor with external data.
template <class Keep>
std::vector<TensorProto*> chosen_tensors(onnx::ModelProto& model, const Keep& large) {
  const std::vector<TensorProto*> all = onnx_tensors(*model.mutable_graph());
  std::vector<TensorProto*> chosen;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool of_graph = i < static_cast<std::size_t>(model.graph().initializer_size());
    if (of_graph ? large(*all[i]) : all[i]->data_location() == TensorProto::EXTERNAL) chosen.push_back(all[i]);
  }
  return chosen;
}

// Writes these tensors into one file and stores their positions in the model. `kept` receives the bytes, so that the
// caller can restore the model.
void write_data(const std::string& path, const std::vector<TensorProto*>& large, OnnxFile* source,
                std::vector<std::string>& kept, TaskProgress& task) {
  const std::string location = base_name(path);
  AtomicFile file(path);
  FileWriter& writer = file.writer();
  for (TensorProto* one : large) {
    TensorProto& tensor = *one;
    const std::string zeros((page - writer.position() % page) % page, '\0');
    writer.write(zeros);
    COMERA_CHECK(source || tensor.data_location() != TensorProto::EXTERNAL);
    const std::span<const std::byte> bytes =
        source ? source->bytes(tensor) : std::as_bytes(std::span(tensor.raw_data()));
    const std::uint64_t offset = writer.position();
    writer.write(bytes.data(), bytes.size());
    task.advance(std::ssize(bytes));
    const std::size_t length = bytes.size();
    kept.push_back(tensor.has_raw_data() ? std::move(*tensor.mutable_raw_data()) : std::string());
    set_external(tensor, location, offset, length);
  }
  file.commit();
}

}  // namespace

std::uint64_t onnx_bytes(const onnx::ModelProto& model) { return model.ByteSizeLong() + external_bytes(model); }

OnnxWritten write_onnx(const std::string& path, onnx::ModelProto& model, const OnnxWriting& options) {
  const std::uint64_t bytes = onnx_bytes(model);
  TaskProgress task("writing " + base_name(path), static_cast<std::int64_t>(bytes), TaskUnit::bytes);
  if (bytes <= options.message_limit && external_bytes(model) == 0) {
    write_message(path, model, task);
    return {file_size(path), {path}};
  }
  std::vector<std::string> kept;
  const std::string data = path + ".data";
  const std::vector<TensorProto*> large = chosen_tensors(model, is_large);
  write_data(data, large, options.source, kept, task);
  write_message(path, model, task);
  for (std::size_t i = 0; i < large.size(); ++i) {
    if (kept[i].empty()) continue;
    *large[i]->mutable_raw_data() = std::move(kept[i]);
    large[i]->clear_external_data();
    large[i]->clear_data_location();
  }
  return {file_size(path) + file_size(data), {path, data}};
}

std::uint64_t planned_onnx_bytes(onnx::ModelProto model, const std::string& file, const OnnxWriting& options) {
  if (external_bytes(model) == 0 && filled_message_bytes(model) <= options.message_limit)
    return filled_message_bytes(model);
  std::uint64_t end = 0;
  const auto goes_out = [](const TensorProto& tensor) {
    return is_declared(tensor) ? data_bytes(tensor) >= smallest_external : is_large(tensor);
  };
  for (TensorProto* tensor : chosen_tensors(model, goes_out)) {
    const std::uint64_t length = tensor->has_raw_data() ? tensor->raw_data().size() : data_bytes(*tensor),
                        offset = (end + page - 1) / page * page;
    set_external(*tensor, base_name(file) + ".data", offset, length);
    end = offset + length;
  }
  return filled_message_bytes(model) + end;
}

}  // namespace comera::io
