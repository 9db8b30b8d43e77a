#include "lib/io/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <tuple>

#include "lib/core/error.h"
#include "lib/core/files/mapped_ranges.h"
#include "lib/core/terminal/log.h"
#include "lib/io/file_kind.h"
#include "lib/io/foreign_weights.h"
#include "lib/io/json.h"

namespace comera::io {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors are little endian");

constexpr std::uint64_t longest_header = 100'000'000;  // the limit of the reference implementation
constexpr std::int64_t most_elements = std::int64_t{1} << 60;
constexpr std::size_t longest_name = 4096;

// The start of a message about one tensor.
std::string place(const std::string& file, const std::string& tensor) {
  return fmt::format("{}: tensor {}", file, printable(tensor));
}

void check_name(const std::string& name, const std::string& file) {
  const bool control = std::any_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  if (name.empty() || name.size() > longest_name || control)
    fail_input("{}: a tensor has an unusable name '{}'; names are 1 to {} bytes without control characters", file,
               printable(name.substr(0, 64)), longest_name);
}

StoredType type_from(const Json& json, const std::string& where) {
  const std::string name = json.is_string() ? json.get<std::string>() : json.dump();
  if (const std::optional<StoredType> type = stored_type_named(name)) return *type;
  fail_input("{}: unknown dtype '{}'; convert it to F32, F16 or BF16", where, printable(name.substr(0, 64)));
}

std::uint64_t unsigned_from(const Json& json, const char* what, const std::string& where) {
  if (!json.is_number_unsigned()) fail_input("{}: {} holds something other than a whole number from 0", where, what);
  return json.get<std::uint64_t>();
}

FileShape shape_from(const Json& json, const std::string& where) {
  if (!json.is_array() || json.size() > 64) fail_input("{}: its shape is not a list of sizes", where);
  FileShape shape;
  std::int64_t elements = 1;
  for (const Json& item : json) {
    const std::uint64_t size = unsigned_from(item, "shape", where);
    shape.push_back(static_cast<std::int64_t>(std::min<std::uint64_t>(size, most_elements + 1)));
    if (__builtin_mul_overflow(elements, shape.back(), &elements) || std::max(elements, shape.back()) > most_elements)
      fail_input("{}: its shape has more than 2^60 elements; the file is damaged", where);
  }
  return shape;
}

StoredTensor tensor_from(const std::string& name, const Json& json, const std::string& file) {
  check_name(name, file);
  const std::string where = place(file, name);
  if (!json.is_object() || json.size() != 3 || !json.contains("dtype") || !json.contains("shape") ||
      !json.contains("data_offsets"))
    fail_input("{}: its entry must have exactly dtype, shape and data_offsets", where);
  StoredTensor tensor{name, type_from(json["dtype"], where), shape_from(json["shape"], where), 0, 0};
  const Json& offsets = json["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2) fail_input("{}: data_offsets must be two numbers", where);
  tensor.begin = unsigned_from(offsets[0], "data_offsets", where);
  tensor.end = unsigned_from(offsets[1], "data_offsets", where);
  const std::uint64_t bytes = static_cast<std::uint64_t>(tensor.elements()) * size_of(tensor.type);  // less than 2^63
  if (tensor.begin > tensor.end || tensor.bytes() != bytes)
    fail_input("{}: {} {} needs {} bytes, but data_offsets are [{}, {}]; the file is damaged", where,
               name_of(tensor.type), to_string(tensor.shape), bytes, tensor.begin, tensor.end);
  return tensor;
}

Metadata metadata_from(const Json& json, const std::string& file) {
  if (!json.is_object()) fail_input("{}: __metadata__ must hold text by name", file);
  Metadata metadata;
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) fail_input("{}: __metadata__ entry \"{}\" is not text", file, printable(key));
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

// The tensors must be contiguous, from the first byte of the data to the end of the file.
void check_layout(const SafetensorsHeader& header, std::uint64_t data_bytes, const std::string& file) {
  std::uint64_t expected = 0;
  for (const StoredTensor& tensor : header.tensors) {
    if (tensor.end > data_bytes)
      fail_input("{}: its data ends at byte {} of {}; the file is truncated, fetch it again", place(file, tensor.name),
                 tensor.end, data_bytes);
    if (tensor.begin < expected)
      fail_input("{}: its data overlaps with another tensor's; the file is damaged", place(file, tensor.name));
    if (tensor.begin > expected)
      fail_input("{}: {} unused bytes lie before its data; the file is damaged", place(file, tensor.name),
                 tensor.begin - expected);
    expected = tensor.end;
  }
  if (expected != data_bytes)
    fail_input("{}: {} bytes follow the last tensor; the file is damaged", file, data_bytes - expected);
}

// Reports a file of another known kind. A file that starts like a safetensors header is accepted.
void check_kind(std::string_view start, const std::string& file) {
  constexpr std::size_t length_bytes = 8;
  std::uint64_t length = 0;
  std::memcpy(&length, start.data(), length_bytes);
  if (length <= longest_header && start[length_bytes] == '{') return;
  if (const FileKind* kind = kind_of(start))
    fail_input("{}: is {}, no safetensors file; {}", file, kind->name, kind->advice);
  if (start[length_bytes] == '{') return;
  if (is_pickled(file))
    fail_input(
        "{}: is no safetensors file; by its name it holds pickled weights, which are not read, because opening them "
        "can run any code; save the model as safetensors where it came from",
        file);
  fail_input("{}: is no safetensors file, because no '{{' is at byte 8; give a model folder or a .safetensors file",
             file);
}

std::uint64_t header_length(std::string_view start, std::uint64_t file_bytes, const std::string& file) {
  if (start.size() <= 8)
    fail_input("{}: {} bytes are too few for a safetensors file; it is truncated, fetch it again", file, file_bytes);
  check_kind(start, file);
  std::uint64_t length = 0;
  std::memcpy(&length, start.data(), 8);
  if (length > longest_header)
    fail_input("{}: claims a header of {} bytes (at most {}); this is no safetensors file", file, length,
               longest_header);
  if (length > file_bytes - 8 || length > start.size() - 8)
    fail_input("{}: claims a header of {} bytes, but only {} follow; it is truncated, fetch it again", file, length,
               file_bytes - 8);
  if (length == 0) fail_input("{}: claims a header of 0 bytes; the file is damaged, fetch it again", file);
  return length;
}

// Runs before the header is parsed: lists with more numbers than a shape has would take many times their bytes in
// memory.
void check_lists(std::string_view json, const std::string& file) {
  constexpr int longest = 64;
  bool quoted = false;
  int inside = 0, numbers = 0;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (quoted) {
      i += c == '\\';
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == ']') {
      inside += c == '[' ? 1 : -1;
      numbers = 1;
    } else if (c == ',' && inside > 0 && ++numbers > longest) {
      fail_input("{}: byte {}: a shape of more than {} sizes begins before; the file is damaged", file, i + 8, longest);
    }
  }
}

}  // namespace

SafetensorsHeader parse_safetensors(std::string_view start, std::uint64_t file_bytes, const std::string& file_name) {
  const std::uint64_t length = header_length(start, file_bytes, file_name);
  check_lists(start.substr(8, length), file_name);
  const Json json = parse_json(start.substr(8, length), file_name, 3);
  SafetensorsHeader header;
  header.data_begin = 8 + length;
  if (!json.is_object()) fail_input("{}: the header is not a JSON object", file_name);
  for (const auto& [name, entry] : json.items()) {
    if (name == "__metadata__") {
      header.metadata = metadata_from(entry, file_name);
    } else {
      header.tensors.push_back(tensor_from(name, entry, file_name));
    }
  }
  std::sort(header.tensors.begin(), header.tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::tie(a.begin, a.end, a.name) <
           std::tie(b.begin, b.end, b.name);  // an empty tensor comes before the tensor that starts at the same byte
  });
  check_layout(header, file_bytes - header.data_begin, file_name);
  return header;
}

SafetensorsFile::SafetensorsFile(std::string path) : path_(std::move(path)), file_(path_) {
  header_ = parse_safetensors(file_.text(), file_.bytes().size(), path_);
  by_name_.resize(tensors().size());
  std::iota(by_name_.begin(), by_name_.end(), 0u);
  std::sort(by_name_.begin(), by_name_.end(),
            [&](std::uint32_t a, std::uint32_t b) { return tensors()[a].name < tensors()[b].name; });
}

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
  const auto found =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [&](std::uint32_t i, std::string_view wanted) { return tensors()[i].name < wanted; });
  return found != by_name_.end() && tensors()[*found].name == name ? &tensors()[*found] : nullptr;
}

std::span<const std::byte> SafetensorsFile::mapped(const StoredTensor& tensor) const {
  return file_.bytes().subspan(header_.data_begin + tensor.begin, tensor.bytes());
}

void SafetensorsFile::read_strip(const StoredTensor& tensor, std::int64_t first, std::span<float> out) const {
  const std::int64_t columns = tensor.columns();
  to_floats(tensor.type,
            mapped(tensor).subspan(static_cast<std::size_t>(first * columns) * size_of(tensor.type),
                                   out.size() * size_of(tensor.type)),
            out);
  require_whole_range(file_.bytes().data());
}

std::vector<float> SafetensorsFile::read_floats(std::string_view name) const {
  const StoredTensor* tensor = find(name);
  if (!tensor) fail_input("{}: has no tensor {}", path_, printable(name));
  std::vector<float> values(static_cast<std::size_t>(tensor->elements()));
  read_floats(*tensor, values);
  return values;
}

}  // namespace comera::io
