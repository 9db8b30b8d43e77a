// Writes GGUF files, version 3, as llama.cpp reads them. The layout is described in the GGUF specification
// (github.com/ggml-org/ggml, docs/gguf.md).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/core/files/file.h"
#include "lib/io/gguf/gguf_blocks.h"
#include "lib/io/safetensors.h"

namespace comera::io {

// The kinds that llama.cpp expects: counts and ids are uint32, reals float32, lists of ids int32.
using GgufWritten = std::variant<std::uint32_t, float, bool, std::string, std::vector<std::int32_t>, std::vector<float>,
                                 std::vector<std::string>>;
struct GgufKey {
  std::string name;
  GgufWritten value;
};

struct GgufTensorToWrite {
  std::string name;
  GgufType type = GgufType::F32;
  FileShape shape;  // row major: rows, then columns
};
// Bytes of its data. The columns are whole blocks of the type.
std::uint64_t bytes_of(const GgufTensorToWrite& tensor);

// Takes the data of one tensor from its first byte to its last.
class GgufSink {
 public:
  GgufSink(FileWriter& writer, const GgufTensorToWrite& tensor) : writer_(&writer), tensor_(&tensor) {}
  void bytes(std::span<const std::byte> data);
  void floats(std::span<const float> values);  // converts to the tensor's type, F32, F16 or BF16
  std::uint64_t written() const { return written_; }

 private:
  FileWriter* writer_;
  const GgufTensorToWrite* tensor_;
  std::uint64_t written_ = 0;
};

// Size of the file.
std::uint64_t gguf_bytes(const std::vector<GgufKey>& keys, const std::vector<GgufTensorToWrite>& tensors);

// Values are requested tensor by tensor. The caller commits the file.
using FillGguf = std::function<void(const GgufTensorToWrite&, GgufSink&)>;
void write_gguf(FileWriter& writer, const std::vector<GgufKey>& keys, const std::vector<GgufTensorToWrite>& tensors,
                const FillGguf& fill);

}  // namespace comera::io
