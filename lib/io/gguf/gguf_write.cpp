#include "lib/io/gguf/gguf_write.h"

#include <algorithm>
#include <array>

#include "lib/core/error.h"

namespace comera::io {
namespace {

constexpr std::uint64_t alignment = 32;  // of the data of each tensor; the format's default
constexpr std::uint32_t version = 3;

std::uint64_t aligned(std::uint64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

// Numbers of the kinds of values in the format.
template <class T>
constexpr std::uint32_t kind_of() {
  if constexpr (std::is_same_v<T, std::uint32_t>) return 4;
  if constexpr (std::is_same_v<T, std::int32_t>) return 5;
  if constexpr (std::is_same_v<T, float>) return 6;
  if constexpr (std::is_same_v<T, bool>) return 7;
  if constexpr (std::is_same_v<T, std::string>) return 8;
}
constexpr std::uint32_t kind_of_lists = 9;

class Header {
 public:
  Header(const std::vector<GgufKey>& keys, const std::vector<GgufTensorToWrite>& tensors) {
    bytes_ = "GGUF";
    put(version);
    put(std::uint64_t{tensors.size()});
    put(std::uint64_t{keys.size()});
    for (const GgufKey& key : keys) {
      put(key.name);
      std::visit([&](const auto& value) { put_value(value); }, key.value);
    }
    std::uint64_t offset = 0;
    for (const GgufTensorToWrite& tensor : tensors) {
      put(tensor.name);
      put(static_cast<std::uint32_t>(tensor.shape.size()));
      for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size) put(*size);
      put(static_cast<std::uint32_t>(tensor.type));
      put(offset);
      offset += aligned(bytes_of(tensor));
    }
    bytes_.resize(aligned(bytes_.size()), '\0');
  }
  const std::string& bytes() const { return bytes_; }

 private:
  template <class T>
  void put(const T& value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put(bool value) { bytes_ += value ? '\1' : '\0'; }
  void put(const std::string& text) {
    put(std::uint64_t{text.size()});
    bytes_ += text;
  }
  template <class T>
  void put_value(const T& value) {
    put(kind_of<T>());
    put(value);
  }
  template <class T>
  void put_value(const std::vector<T>& values) {
    put(kind_of_lists);
    put(kind_of<T>());
    put(std::uint64_t{values.size()});
    for (const T& value : values) put(value);
  }

  std::string bytes_;
};

GgufFormat format_of(GgufType type) {
  const auto format = gguf_format(static_cast<std::uint32_t>(type));
  COMERA_CHECK(format);
  return *format;
}

StoredType stored_type(GgufType type) {
  COMERA_CHECK(!is_quantised(type));
  return type == GgufType::F32 ? StoredType::F32 : type == GgufType::F16 ? StoredType::F16 : StoredType::BF16;
}

}  // namespace

std::uint64_t bytes_of(const GgufTensorToWrite& tensor) {
  const GgufFormat format = format_of(tensor.type);
  COMERA_CHECK(!tensor.shape.empty() && tensor.shape.back() % format.block == 0);
  return static_cast<std::uint64_t>(elements_of(tensor.shape) / format.block * format.bytes);
}

void GgufSink::bytes(std::span<const std::byte> data) {
  written_ += data.size();
  COMERA_CHECK(written_ <= bytes_of(*tensor_));
  writer_->write(data.data(), data.size());
}

void GgufSink::floats(std::span<const float> values) {
  const StoredType type = stored_type(tensor_->type);
  std::vector<std::byte> converted(values.size() * size_of(type));
  from_floats(values, type, converted);
  bytes(converted);
}

std::uint64_t gguf_bytes(const std::vector<GgufKey>& keys, const std::vector<GgufTensorToWrite>& tensors) {
  std::uint64_t bytes = Header(keys, tensors).bytes().size();
  for (const GgufTensorToWrite& tensor : tensors) bytes += aligned(bytes_of(tensor));
  return bytes;
}

void write_gguf(FileWriter& writer, const std::vector<GgufKey>& keys, const std::vector<GgufTensorToWrite>& tensors,
                const FillGguf& fill) {
  writer.write(Header(keys, tensors).bytes());
  constexpr std::array<std::byte, alignment> zeros{};
  for (const GgufTensorToWrite& tensor : tensors) {
    GgufSink sink(writer, tensor);
    fill(tensor, sink);
    COMERA_CHECK(sink.written() == bytes_of(tensor));
    writer.write(zeros.data(), aligned(sink.written()) - sink.written());
  }
}

}  // namespace comera::io
