// Writes safetensors files, declared in lib/io/safetensors.h.
#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "lib/core/error.h"
#include "lib/io/json.h"
#include "lib/io/safetensors.h"

namespace comera::io {
namespace {

constexpr std::size_t chunk_elements = std::size_t{1} << 14;

bool before(const TensorToWrite& a, const TensorToWrite& b) {
  if (size_of(a.type) != size_of(b.type)) return size_of(a.type) > size_of(b.type);
  return a.name < b.name;
}

std::uint64_t bytes_of(const TensorToWrite& tensor) {
  return static_cast<std::uint64_t>(elements_of(tensor.shape)) * size_of(tensor.type);
}

std::string header_text(const std::vector<TensorToWrite>& tensors, const Metadata& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t begin = 0;
  std::unordered_set<std::string_view> names;
  for (const TensorToWrite& tensor : tensors) {
    COMERA_CHECK(names.insert(tensor.name).second);
    const std::uint64_t end = begin + bytes_of(tensor);
    header.append_member(tensor.name,
                         {{"dtype", name_of(tensor.type)}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}});
    begin = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // aligns the start of the data
  return text;
}

}  // namespace

void TensorSink::bytes(const void* data, std::size_t count) {
  written_ += count;
  COMERA_CHECK(written_ <= bytes_of(*tensor_));
  writer_->write(data, count);
}

void TensorSink::floats(std::span<const float> values) {
  if (tensor_->type == StoredType::F32) return bytes(values.data(), values.size_bytes());
  std::vector<std::byte> converted(std::min(values.size(), chunk_elements) * size_of(tensor_->type));
  for (std::size_t at = 0; at < values.size(); at += chunk_elements) {
    const std::span<const float> chunk = values.subspan(at, std::min(chunk_elements, values.size() - at));
    const std::span<std::byte> out = std::span(converted).first(chunk.size() * size_of(tensor_->type));
    from_floats(chunk, tensor_->type, out);
    bytes(out.data(), out.size());
  }
}

std::uint64_t safetensors_bytes(std::vector<TensorToWrite> tensors, const Metadata& metadata) {
  std::sort(tensors.begin(), tensors.end(), before);
  std::uint64_t bytes = sizeof(std::uint64_t) + header_text(tensors, metadata).size();
  for (const TensorToWrite& tensor : tensors) bytes += bytes_of(tensor);
  return bytes;
}

void write_safetensors(const std::string& path, std::vector<TensorToWrite> tensors, const Metadata& metadata,
                       const FillTensor& fill) {
  AtomicFile file(path);
  write_safetensors(file, std::move(tensors), metadata, fill);
}

void write_safetensors(AtomicFile& file, std::vector<TensorToWrite> tensors, const Metadata& metadata,
                       const FillTensor& fill) {
  std::sort(tensors.begin(), tensors.end(), before);
  const std::string header = header_text(tensors, metadata);
  const std::uint64_t length = header.size();
  file.writer().write(&length, sizeof length);
  file.writer().write(header);
  for (const TensorToWrite& tensor : tensors) {
    TensorSink sink(file.writer(), tensor);
    fill(tensor, sink);
    COMERA_CHECK(sink.written() == bytes_of(tensor));
  }
  file.commit();
}

void write_safetensors(const std::string& path, std::vector<TensorToWrite> tensors, const Metadata& metadata) {
  write_safetensors(path, std::move(tensors), metadata, [](const TensorToWrite& tensor, TensorSink& sink) {
    if (tensor.from_float) {
      sink.floats({static_cast<const float*>(tensor.data), static_cast<std::size_t>(elements_of(tensor.shape))});
    } else {
      sink.bytes(tensor.data, bytes_of(tensor));
    }
  });
}

std::uint64_t weights_bytes(const std::vector<std::vector<TensorToWrite>>& shards, const Metadata& metadata) {
  std::uint64_t bytes = 0;
  for (const std::vector<TensorToWrite>& shard : shards) bytes += safetensors_bytes(shard, metadata);
  return bytes;
}

void write_weights(const std::string& folder, std::vector<std::vector<TensorToWrite>> shards, const Metadata& metadata,
                   const FillTensor& fill) {
  if (shards.size() == 1)
    return write_safetensors(join_path(folder, "model.safetensors"), std::move(shards[0]), metadata, fill);
  std::map<std::string, std::string> files;  // by tensor
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    for (const TensorToWrite& tensor : shards[i]) files[tensor.name] = name, total += bytes_of(tensor);
    write_safetensors(join_path(folder, name), std::move(shards[i]), metadata, fill);
  }
  const Json index{{"metadata", {{"total_size", total}}}, {"weight_map", files}};
  write_file_atomic(join_path(folder, "model.safetensors.index.json"), json_text(index));
}

}  // namespace comera::io
