// Safetensors files: 8 bytes with the little-endian header length, a JSON header {name: {dtype, shape, data_offsets}},
// then the data in C order. Readers are strict: a header that does not describe exactly the bytes of the file is an
// InputError that names file and tensor.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/core/files/file.h"
#include "lib/io/weight_file.h"

namespace comera::io {

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  // in the order of their data
  Metadata metadata;
  std::uint64_t data_begin = 0;  // from the start of the file
};

// `start`: the first bytes of the file, with the whole header if there is one. `file_bytes`: the size of the whole
// file.
SafetensorsHeader parse_safetensors(std::string_view start, std::uint64_t file_bytes, const std::string& file_name);

// An open file. Only the header is read until a tensor's bytes are requested.
class SafetensorsFile final : public WeightFile {
 public:
  explicit SafetensorsFile(std::string path);

  const std::string& path() const override { return path_; }
  std::uint64_t file_bytes() const override { return file_.bytes().size(); }
  const std::vector<StoredTensor>& tensors() const override { return header_.tensors; }
  const Metadata& metadata() const override { return header_.metadata; }
  const StoredTensor* find(std::string_view name) const;  // null if there is none
  StoredBytes bytes(const StoredTensor& tensor) const override { return StoredBytes(mapped(tensor)); }
  void forget(const StoredTensor& tensor) const override { file_.forget(mapped(tensor)); }
  void read_strip(const StoredTensor& tensor, std::int64_t first, std::span<float> out) const override;

  using WeightFile::read_floats;
  std::vector<float> read_floats(std::string_view name) const;  // InputError if the tensor is missing

 private:
  std::span<const std::byte> mapped(const StoredTensor& tensor) const;  // any alignment

  std::string path_;
  MappedFile file_;
  SafetensorsHeader header_;
  std::vector<std::uint32_t> by_name_;
};

// A tensor to write: its name, and the source of its values.
struct TensorToWrite {
  std::string name;
  StoredType type = StoredType::F32;
  FileShape shape;
  const void* data = nullptr;  // in the file's type, or floats that are converted (`from_float`)
  bool from_float = false;     // `data` is float*, `type` any floating type
};

// Atomic. The same tensors and metadata in any order give the same bytes: wide types first, then by name, every tensor
// aligned to its type.
void write_safetensors(const std::string& path, std::vector<TensorToWrite> tensors, const Metadata& metadata);

// Size of the file that write_safetensors() would write.
std::uint64_t safetensors_bytes(std::vector<TensorToWrite> tensors, const Metadata& metadata);

// The same with values on demand: `fill` is called once per tensor, in the order of the file, and writes its bytes.
class TensorSink {
 public:
  TensorSink(FileWriter& writer, const TensorToWrite& tensor) : writer_(&writer), tensor_(&tensor) {}
  void bytes(const void* data, std::size_t count);
  void floats(std::span<const float> values);  // converts to the tensor's type
  std::uint64_t written() const { return written_; }

 private:
  FileWriter* writer_;
  const TensorToWrite* tensor_;
  std::uint64_t written_ = 0;
};
using FillTensor = std::function<void(const TensorToWrite&, TensorSink&)>;
void write_safetensors(const std::string& path, std::vector<TensorToWrite> tensors, const Metadata& metadata,
                       const FillTensor& fill);
void write_safetensors(AtomicFile& file, std::vector<TensorToWrite> tensors, const Metadata& metadata,
                       const FillTensor& fill);

// Writes a model's weights as a folder stores them: one shard is model.safetensors; several are
// model-00001-of-00003.safetensors, ... and their index. Values are requested tensor by tensor, so at most one tensor
// is in memory.
void write_weights(const std::string& folder, std::vector<std::vector<TensorToWrite>> shards, const Metadata& metadata,
                   const FillTensor& fill);
// Size of the .safetensors files that write_weights() would write.
std::uint64_t weights_bytes(const std::vector<std::vector<TensorToWrite>>& shards, const Metadata& metadata);

}  // namespace comera::io
