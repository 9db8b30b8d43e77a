#include "lib/train/weights_file.h"

#include <cmath>
#include <cstring>
#include <map>

#include "lib/core/error.h"
#include "lib/io/tt_format.h"

namespace comera::train {
namespace {

io::StoredType stored_type(DType dtype) {
  COMERA_CHECK(dtype == DType::f32 || dtype == DType::f64);
  return dtype == DType::f32 ? io::StoredType::F32 : io::StoredType::F64;
}

io::FileShape file_shape(const Shape& shape, bool transposed) {
  io::FileShape sizes(shape.sizes().begin(), shape.sizes().end());
  if (transposed) std::swap(sizes.at(0), sizes.at(1));
  return sizes;
}

const io::Metadata& metadata() {
  static const io::Metadata metadata = io::weights_metadata();
  return metadata;
}

std::vector<io::TensorToWrite> tensors_of(const Model& model) {
  std::vector<io::TensorToWrite> tensors;
  for (const Parameter& parameter : model.parameters().all())
    tensors.push_back({parameter.name, stored_type(parameter.value.dtype), file_shape(parameter.shape, parameter.transposed_in_file)});
  return tensors;
}

// Rows of the transpose of bytes seen as [rows, columns], one at a time.
template <class Row>
void transpose(std::span<const std::byte> bytes, std::int64_t rows, std::int64_t columns, std::size_t element, Row&& take) {
  std::vector<std::byte> row(static_cast<std::size_t>(rows) * element);
  for (std::int64_t c = 0; c < columns; ++c) {
    for (std::int64_t r = 0; r < rows; ++r)
      std::memcpy(row.data() + static_cast<std::size_t>(r) * element, bytes.data() + static_cast<std::size_t>(r * columns + c) * element, element);
    take(std::span<const std::byte>(row));
  }
}

void put(const Machine& machine, const Tensor& tensor, bool transposed, io::TensorSink& sink) {
  const HostBytes host(machine, tensor);
  if (!transposed) return sink.bytes(host.bytes().data(), host.bytes().size());
  transpose(host.bytes(), tensor.shape[0], tensor.shape[1], size_of(tensor.dtype),
            [&](std::span<const std::byte> row) { sink.bytes(row.data(), row.size()); });
}

// A tensor's bytes as the file has them, in the element type wanted.
std::vector<std::byte> bytes_as(const io::SafetensorsFile& file, const io::StoredTensor& stored, DType dtype) {
  const std::span<const std::byte> raw = file.bytes(stored);
  if (stored.type == stored_type(dtype)) return {raw.begin(), raw.end()};
  std::vector<float> floats(static_cast<std::size_t>(stored.elements()));
  file.read_floats(stored, floats);
  std::vector<std::byte> bytes(floats.size() * size_of(dtype));
  const Tensor host{bytes.data(), dtype, {stored.elements()}, -1};
  for (std::size_t i = 0; i < floats.size(); ++i) layers::store(host, static_cast<std::int64_t>(i), floats[i]);
  return bytes;
}

void check_finite(const Tensor& host, const std::string& file, const std::string& name) {
  for (std::int64_t i = 0; i < host.shape.elements(); ++i)
    if (const double value = layers::load(host, i); !std::isfinite(value))
      fail_input("{}: tensor {}: its element {} is {}; the file is damaged or its training diverged, use another one", file, name, i, value);
}

void get(const Machine& machine, const io::SafetensorsFile& file, const std::string& name, const Tensor& tensor, bool transposed) {
  const io::StoredTensor* stored = file.find(name);
  if (!stored) fail_input("{}: tensor {} is missing; the file belongs to another model", file.path(), name);
  const io::FileShape wanted = file_shape(tensor.shape, transposed);
  if (stored->shape != wanted)
    fail_input("{}: tensor {} has shape {}, but {} was wanted; the file belongs to another model", file.path(), name, io::to_string(stored->shape),
               io::to_string(wanted));
  std::vector<std::byte> bytes = bytes_as(file, *stored, tensor.dtype);
  check_finite({bytes.data(), tensor.dtype, {stored->elements()}, -1}, file.path(), name);
  if (!transposed) return write(machine, tensor, bytes);
  std::vector<std::byte> turned;
  turned.reserve(bytes.size());
  transpose(bytes, wanted[0], wanted[1], size_of(tensor.dtype),
            [&](std::span<const std::byte> row) { turned.insert(turned.end(), row.begin(), row.end()); });
  write(machine, tensor, turned);
}

std::string moment_name(int which, const Parameter& parameter) { return (which == 0 ? "moment1." : "moment2.") + parameter.name; }

}  // namespace

std::uint64_t weights_file_bytes(const Model& model) { return io::safetensors_bytes(tensors_of(model), metadata()); }

void save_weights(const std::string& path, const Weights& weights) {
  std::map<std::string, const Parameter*> parameters;
  for (const Parameter& parameter : weights.model().parameters().all()) parameters[parameter.name] = &parameter;
  io::write_safetensors(path, tensors_of(weights.model()), metadata(), [&](const io::TensorToWrite& tensor, io::TensorSink& sink) {
    const Parameter& parameter = *parameters.at(tensor.name);
    put(weights.machine(), parameter.value, parameter.transposed_in_file, sink);
  });
}

void load_weights(const std::string& path, Weights& weights) {
  const io::SafetensorsFile file(path);
  for (const Parameter& parameter : weights.model().parameters().all())
    get(weights.machine(), file, parameter.name, parameter.value, parameter.transposed_in_file);
}

void save_moments(const std::string& path, const Weights& weights) {
  std::map<std::string, Tensor> moments;
  std::vector<io::TensorToWrite> tensors;
  for (const Parameter& parameter : weights.model().parameters().all())
    for (int which = 0; which < Weights::moments; ++which) {
      moments[moment_name(which, parameter)] = weights.moment(which, parameter.index);
      tensors.push_back({moment_name(which, parameter), stored_type(parameter.value.dtype), file_shape(parameter.shape, false)});
    }
  io::write_safetensors(path, std::move(tensors), metadata(),
                        [&](const io::TensorToWrite& tensor, io::TensorSink& sink) { put(weights.machine(), moments.at(tensor.name), false, sink); });
}

void load_moments(const std::string& path, Weights& weights) {
  const io::SafetensorsFile file(path);
  for (const Parameter& parameter : weights.model().parameters().all())
    for (int which = 0; which < Weights::moments; ++which)
      get(weights.machine(), file, moment_name(which, parameter), weights.moment(which, parameter.index), false);
}

}  // namespace comera::train
