// A file of weights, whatever its format: tensors by the names of Hugging Face, read on request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace comera::io {

enum class StoredType : std::uint8_t {
  F64,
  F32,
  F16,
  BF16,
  I64,
  I32,
  I16,
  I8,
  U64,
  U32,
  U16,
  U8,
  BOOL,
  F8_E4M3,
  F8_E5M2
};

const char* name_of(StoredType type);  // spelling in the file
std::size_t size_of(StoredType type);  // bytes
std::optional<StoredType> stored_type_named(std::string_view name);
bool is_floating(StoredType type);  // read_floats() and the writer convert these types: F64, F32, F16, BF16

using FileShape = std::vector<std::int64_t>;
std::int64_t elements_of(const FileShape& shape);
std::string to_string(const FileShape& shape);  // "[768, 3072]"

struct StoredTensor {
  std::string name;
  StoredType type = StoredType::F32;
  FileShape shape;
  std::uint64_t begin = 0, end = 0;  // bytes from the start of the data; 0 and the size for numbers made on request

  std::int64_t elements() const { return elements_of(shape); }
  std::uint64_t bytes() const { return end - begin; }
  // A tensor of one dimension is one row; columns() are the elements of a row.
  std::int64_t rows() const { return shape.size() < 2 ? 1 : shape[0]; }
  std::int64_t columns() const { return elements() == 0 ? 0 : elements() / rows(); }
};

using Metadata = std::map<std::string, std::string>;

// The bytes of a tensor: a part of a mapped file, or numbers that were made on request and live as long as this object.
class StoredBytes {
 public:
  explicit StoredBytes(std::span<const std::byte> mapped) : bytes_(mapped) {}
  explicit StoredBytes(std::vector<std::byte> made);
  StoredBytes(StoredBytes&&) noexcept;  // moving a vector keeps its address
  StoredBytes& operator=(StoredBytes&&) noexcept;
  StoredBytes(const StoredBytes&) = delete;
  StoredBytes& operator=(const StoredBytes&) = delete;
  ~StoredBytes();

  const std::byte* data() const { return bytes_.data(); }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  auto begin() const { return bytes_.begin(); }
  auto end() const { return bytes_.end(); }
  std::span<const std::byte> span() const { return bytes_; }
  bool is_mapped() const { return made_.empty(); }

 private:
  std::vector<std::byte> made_;
  std::span<const std::byte> bytes_;
};

class WeightFile {
 public:
  virtual ~WeightFile() = default;

  virtual const std::string& path() const = 0;   // for messages
  virtual std::uint64_t file_bytes() const = 0;  // of the file, or of all parts of it
  virtual std::vector<std::string> all_paths() const { return {path()}; }
  virtual const std::vector<StoredTensor>& tensors() const = 0;
  virtual const Metadata& metadata() const = 0;

  virtual StoredBytes bytes(const StoredTensor& tensor) const = 0;
  // Rows (of the first dimension) from `first` on as floats, as many as `out` has. A tensor of one dimension is one
  // row. The type is floating.
  virtual void read_strip(const StoredTensor& tensor, std::int64_t first, std::span<float> out) const = 0;
  // Releases the mapped memory of a tensor, so that a file of any size can be read with little memory.
  virtual void forget(const StoredTensor& tensor) const = 0;

  // Converts to float (F64 rounds). `out` has exactly the tensor's elements. InputError if the type is not floating.
  void read_floats(const StoredTensor& tensor, std::span<float> out) const;
  // The same in strips of a few rows, without a copy of the whole tensor. A value that is not finite is an InputError
  // too.
  using TakeRows = std::function<void(std::int64_t first, std::span<const float> rows)>;
  void read_rows(const StoredTensor& tensor, const TakeRows& take) const;
};

void to_floats(StoredType type, std::span<const std::byte> bytes, std::span<float> out);
void from_floats(std::span<const float> values, StoredType type, std::span<std::byte> out);

}  // namespace comera::io
