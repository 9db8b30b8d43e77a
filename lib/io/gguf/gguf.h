// GGUF files of llama.cpp, versions 2 and 3: metadata by name and tensors, plain or in blocks of quantised numbers.
// Readers are strict: a file whose counts, lengths or offsets do not fit its size is an InputError that names the file
// and the place. The layout is described in the GGUF specification (github.com/ggml-org/ggml, docs/gguf.md).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/core/files/file.h"
#include "lib/io/gguf/gguf_blocks.h"
#include "lib/io/safetensors.h"

namespace comera::io {

// Whole numbers of all widths are int64 (a number above 2^63 - 1 is an InputError), reals are double.
using GgufValue = std::variant<std::int64_t, double, bool, std::string, std::vector<std::int64_t>, std::vector<double>,
                               std::vector<bool>, std::vector<std::string>>;
using GgufMetadata = std::map<std::string, GgufValue>;

struct GgufTensor {
  std::string name;
  GgufType type = GgufType::F32;
  FileShape shape;                   // row major: the last dimension is contiguous (the reverse of the file's order)
  std::uint64_t begin = 0, end = 0;  // bytes from the start of its file
  std::size_t part = 0;              // the file that holds it, of a model in several files

  std::int64_t elements() const { return elements_of(shape); }
  std::int64_t columns() const { return shape.empty() ? 1 : shape.back(); }
  std::int64_t rows() const { return elements() / columns(); }
};

struct GgufHeader {
  std::uint32_t version = 3;
  GgufMetadata metadata;
  std::vector<GgufTensor> tensors;  // in the order of the file
};

// `file` names the file in error messages.
GgufHeader parse_gguf(std::string_view bytes, const std::string& file);

// True for a file that begins with the magic; false for everything else, also for what cannot be read.
bool is_gguf_file(const std::string& path);

// An open file, or all files of a model that llama-gguf-split divided: the name of one of them, which ends in
// -00001-of-00003.gguf, stands for all. Keys are those of the first, tensors those of all.
class GgufFile {
 public:
  explicit GgufFile(std::string path);

  const std::string& path() const { return path_; }
  const std::vector<std::string>& all_paths() const { return paths_; }
  const GgufHeader& header() const { return header_; }
  const std::vector<GgufTensor>& tensors() const { return header_.tensors; }
  const GgufTensor* find(std::string_view name) const;  // null if there is none
  std::uint64_t bytes() const;                          // of all files

  // The value of a key, converted if it is a number. InputError if it is missing or of another kind.
  std::int64_t integer(const std::string& key) const;
  double real(const std::string& key) const;
  bool flag(const std::string& key) const;
  const std::string& text(const std::string& key) const;
  const std::vector<std::string>& texts(const std::string& key) const;
  const std::vector<std::int64_t>& integers(const std::string& key) const;
  const std::vector<double>& reals(const std::string& key) const;
  bool has(const std::string& key) const { return header_.metadata.contains(key); }

  // Row `row` of a tensor as floats; `out` has its columns.
  void read_row(const GgufTensor& tensor, std::int64_t row, std::span<float> out) const;
  std::span<const std::byte> bytes(const GgufTensor& tensor) const;  // its blocks
  // Releases the mapped memory of a tensor.
  void forget(const GgufTensor& tensor) const;

 private:
  template <class T>
  const T& value(const std::string& key, const char* kind) const;
  void open_parts();
  void require_all_once() const;

  std::string path_;
  std::vector<std::string> paths_;
  std::vector<MappedFile> files_;
  GgufHeader header_;
};

}  // namespace comera::io
