#include "lib/io/gguf/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <set>

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"
#include "lib/io/file_kind.h"

namespace comera::io {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF files are little endian");

constexpr std::uint64_t longest_name = 4096;
constexpr std::uint32_t most_dimensions = 4;
constexpr std::uint64_t largest_alignment = 1 << 20;
constexpr std::uint64_t most_items = 1 << 24;  // of all lists; a vocabulary has 2^18
constexpr std::uint32_t string_type = 8, array_type = 9;

// Reads the header from front to back and checks every length against the bytes that are left.
class Reader {
 public:
  Reader(std::string_view bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  std::uint64_t at() const { return at_; }
  std::uint64_t left() const { return bytes_.size() - at_; }
  const std::string& file() const { return file_; }

  template <class T>
  T number(const char* what) {
    T value{};
    std::memcpy(&value, take(sizeof value, what), sizeof value);
    return value;
  }

  std::string text(const char* what, std::uint64_t longest = std::numeric_limits<std::uint64_t>::max()) {
    const auto length = number<std::uint64_t>(what);
    if (length > std::min(longest, left()))
      fail_input("{}: byte {}: {} claims {} bytes, {} follow; the file is damaged", file_, at_, what, length, left());
    return {take(length, what), length};
  }

  // The number of items that follow, each of at least `least` bytes.
  std::uint64_t count(const char* what, std::uint64_t least) {
    const auto items = number<std::uint64_t>(what);
    if (items > left() / least)
      fail_input("{}: byte {}: claims {} {}, but only {} bytes follow; the file is damaged or truncated", file_, at_,
                 items, what, left());
    return items;
  }

  // Bounds the memory that lists of one-byte numbers take.
  void add_items(std::uint64_t items) {
    items_ += items;
    if (items_ > most_items)
      fail_input("{}: byte {}: its lists have more than {} items; the file is damaged", file_, at_, most_items);
  }

 private:
  const char* take(std::uint64_t count, const char* what) {
    if (count > left())
      fail_input("{}: ends at byte {}, inside {}; it is truncated, fetch it again", file_, bytes_.size(), what);
    const char* piece = bytes_.data() + at_;
    at_ += count;
    return piece;
  }

  std::string_view bytes_;
  const std::string& file_;
  std::uint64_t at_ = 0, items_ = 0;
};

std::int64_t from_unsigned(std::uint64_t value, Reader& reader) {
  if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    fail_input("{}: byte {}: the number {} is too large", reader.file(), reader.at(), value);
  return static_cast<std::int64_t>(value);
}

// Calls visit(read) with a function that reads one value of this type and returns int64, double, bool or string.
template <class Visit>
auto with_type(std::uint32_t type, Reader& reader, Visit visit) {
  constexpr const char* what = "a value";
  const auto whole = [&]<class T>(T) {
    return visit([&] { return static_cast<std::int64_t>(reader.number<T>(what)); });
  };
  switch (type) {
    case 0: return whole(std::uint8_t{});
    case 1: return whole(std::int8_t{});
    case 2: return whole(std::uint16_t{});
    case 3: return whole(std::int16_t{});
    case 4: return whole(std::uint32_t{});
    case 5: return whole(std::int32_t{});
    case 6: return visit([&] { return static_cast<double>(reader.number<float>(what)); });
    case 7: return visit([&] { return reader.number<std::uint8_t>(what) != 0; });
    case string_type: return visit([&] { return reader.text("a text"); });
    case 10: return visit([&] { return from_unsigned(reader.number<std::uint64_t>(what), reader); });
    case 11: return whole(std::int64_t{});
    case 12: return visit([&] { return reader.number<double>(what); });
    default:
      fail_input("{}: byte {}: unknown kind {} of a value; the file is damaged", reader.file(), reader.at(), type);
  }
}

// A value or a list of values of one type.
GgufValue array_of(Reader& reader, const std::string& key) {
  const auto type = reader.number<std::uint32_t>("the kind of an array");
  if (type == array_type)
    fail_input("{}: key {} is an array of arrays, which no known key is", reader.file(), printable(key));
  return with_type(type, reader, [&](auto read) {
    const std::uint64_t items = reader.count("items of an array", type == string_type ? sizeof(std::uint64_t) : 1);
    reader.add_items(items);
    std::vector<decltype(read())> values;
    for (std::uint64_t i = 0; i < items; ++i) values.push_back(read());
    return GgufValue(std::move(values));
  });
}

GgufMetadata metadata_of(Reader& reader, std::uint64_t keys) {
  GgufMetadata metadata;
  for (std::uint64_t i = 0; i < keys; ++i) {
    const std::string key = reader.text("a key", longest_name);
    const auto type = reader.number<std::uint32_t>("the kind of a value");
    GgufValue value = type == array_type ? array_of(reader, key)
                                         : with_type(type, reader, [](auto read) { return GgufValue(read()); });
    if (!metadata.emplace(key, std::move(value)).second)
      fail_input("{}: key {} occurs twice; the file is damaged", reader.file(), printable(key));
  }
  return metadata;
}

std::string place(const Reader& reader, const std::string& tensor) {
  return fmt::format("{}: tensor {}", reader.file(), printable(tensor));
}

FileShape shape_of(Reader& reader, const std::string& where) {
  const auto dimensions = reader.number<std::uint32_t>("the dimensions of a tensor");
  if (dimensions > most_dimensions)
    fail_input("{}: has {} dimensions, at most {} are allowed; the file is damaged", where, dimensions,
               most_dimensions);
  FileShape shape;
  std::int64_t elements = 1;
  for (std::uint32_t k = 0; k < dimensions; ++k) {
    const auto size = reader.number<std::uint64_t>("a size of a tensor");
    constexpr auto most = std::int64_t{1} << 60;
    if (size < 1 || size > static_cast<std::uint64_t>(most) ||
        __builtin_mul_overflow(elements, static_cast<std::int64_t>(size), &elements) || elements > most)
      fail_input("{}: a size of {} is outside 1 to 2^60 elements; the file is damaged", where, size);
    shape.insert(shape.begin(), static_cast<std::int64_t>(size));
  }
  return shape;
}

// `begin` is from the start of the data until the header's end is known.
GgufTensor tensor_of(Reader& reader) {
  GgufTensor tensor;
  tensor.name = reader.text("the name of a tensor", longest_name);
  const std::string where = place(reader, tensor.name);
  tensor.shape = shape_of(reader, where);
  const auto type = reader.number<std::uint32_t>("the type of a tensor");
  const std::optional<GgufFormat> format = gguf_format(type);
  if (!format)
    fail_input(
        "{}: its type {} is not read; convert the model with llama-quantize to F16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K "
        "or Q6_K",
        where, type);
  tensor.type = static_cast<GgufType>(type);
  if (tensor.columns() % format->block != 0)
    fail_input("{}: rows of {} numbers are no whole blocks of {}, as {} has; the file is damaged", where,
               tensor.columns(), format->block, format->name);
  tensor.begin = reader.number<std::uint64_t>("the offset of a tensor");
  tensor.end =
      static_cast<std::uint64_t>(tensor.elements() / format->block) * static_cast<std::uint64_t>(format->bytes);
  return tensor;
}

std::uint64_t alignment_of(const Reader& reader, const GgufMetadata& metadata) {
  const auto found = metadata.find("general.alignment");
  if (found == metadata.end()) return 32;
  const auto* value = std::get_if<std::int64_t>(&found->second);
  const auto alignment = value && *value > 0 ? static_cast<std::uint64_t>(*value) : 0;
  if (!std::has_single_bit(alignment) || alignment > largest_alignment)
    fail_input("{}: general.alignment must be a power of 2 up to {}; the file is damaged", reader.file(),
               largest_alignment);
  return alignment;
}

// Makes offsets relative to the file and checks that every tensor lies in it and none overlaps another.
void place_tensors(GgufHeader& header, const Reader& reader, std::uint64_t file_bytes) {
  const std::uint64_t alignment = alignment_of(reader, header.metadata);
  const std::uint64_t data = (reader.at() + alignment - 1) / alignment * alignment;
  std::vector<const GgufTensor*> sorted;
  std::set<std::string_view> names;
  for (GgufTensor& tensor : header.tensors) {
    const std::string where = place(reader, tensor.name);
    const std::uint64_t bytes = tensor.end;
    if (tensor.begin % alignment != 0)
      fail_input("{}: its offset {} is no multiple of {}; the file is damaged", where, tensor.begin, alignment);
    if (data > file_bytes || tensor.begin > file_bytes - data || bytes > file_bytes - data - tensor.begin)
      fail_input("{}: its {} bytes from {} on do not lie in the file of {}; it is truncated, fetch it again", where,
                 bytes, tensor.begin, file_bytes);
    tensor.begin += data;
    tensor.end = tensor.begin + bytes;
    if (!names.insert(tensor.name).second) fail_input("{}: occurs twice; the file is damaged", where);
    sorted.push_back(&tensor);
  }
  std::sort(sorted.begin(), sorted.end(), [](const GgufTensor* a, const GgufTensor* b) { return a->begin < b->begin; });
  for (std::size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i]->begin < sorted[i - 1]->end)
      fail_input("{}: its data overlaps with that of {}; the file is damaged", place(reader, sorted[i]->name),
                 printable(sorted[i - 1]->name));
}

constexpr const char *split_count = "split.count", *split_number = "split.no", *split_tensors = "split.tensors.count";
constexpr std::int64_t most_parts = 1000;

std::string part_ending(std::int64_t number, std::int64_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", number, count);
}

// The path of a part without its ending.
std::string stem_of_part(const std::string& path, std::int64_t number, std::int64_t count) {
  const std::string ending = part_ending(number, count);
  if (!path.ends_with(ending))
    fail_input("{}: is file {} of {} of a model, so its name must end in {}; give all files their names", path, number,
               count, ending);
  return path.substr(0, path.size() - ending.size());
}

}  // namespace

GgufHeader parse_gguf(std::string_view bytes, const std::string& file) {
  Reader reader(bytes, file);
  if (!bytes.starts_with("GGUF")) fail_input("{}: does not begin with GGUF; this is no GGUF file", file);
  reader.number<std::uint32_t>("the magic");
  GgufHeader header;
  header.version = reader.number<std::uint32_t>("the version");
  if (header.version != 2 && header.version != 3)
    fail_input("{}: has version {} of GGUF{}; versions 2 and 3 are read", file, header.version,
               header.version > 0xffff ? " (or is big-endian)" : "");
  constexpr std::uint64_t least_tensor = 24, least_key = 13;  // bytes
  const std::uint64_t tensors = reader.count("tensors", least_tensor), keys = reader.count("keys", least_key);
  header.metadata = metadata_of(reader, keys);
  for (std::uint64_t i = 0; i < tensors; ++i) header.tensors.push_back(tensor_of(reader));
  place_tensors(header, reader, bytes.size());
  return header;
}

bool is_gguf_file(const std::string& path) {
  if (is_folder(path)) return false;
  const FileKind* kind = kind_of_file(path);
  return kind && kind->is_gguf();
}

GgufFile::GgufFile(std::string path) : path_(std::move(path)), paths_{path_} {
  files_.emplace_back(path_);
  header_ = parse_gguf(files_[0].text(), path_);
  if (has(split_count) && integer(split_count) != 1) open_parts();
}

void GgufFile::open_parts() {
  const std::int64_t count = integer(split_count);
  if (count < 2 || count > most_parts)
    fail_input("{}: key {} is {}; it must be 1 to {}", path_, split_count, count, most_parts);
  const std::string stem = stem_of_part(path_, integer(split_number) + 1, count);
  files_.clear();
  paths_.clear();
  GgufHeader whole;
  for (std::int64_t k = 0; k < count; ++k) {
    const std::string path = stem + part_ending(k + 1, count);
    if (!path_exists(path))
      fail_input("{}: file {} of {} of the model is missing; put it beside the others", path, k + 1, count);
    files_.emplace_back(path);
    paths_.push_back(path);
    header_ = parse_gguf(files_.back().text(), path);
    for (const auto& [key, wanted] : {std::pair{split_count, count}, {split_number, k}})
      if (!has(key) || integer(key) != wanted)
        fail_input("{}: key {} is not {}, as its name says; the files belong to different models", path, key, wanted);
    for (GgufTensor& tensor : header_.tensors) tensor.part = static_cast<std::size_t>(k);
    if (k == 0) {
      whole = std::move(header_);
      continue;
    }
    whole.tensors.insert(whole.tensors.end(), std::make_move_iterator(header_.tensors.begin()),
                         std::make_move_iterator(header_.tensors.end()));
  }
  header_ = std::move(whole);
  require_all_once();
}

void GgufFile::require_all_once() const {
  std::set<std::string_view> names;
  for (const GgufTensor& tensor : header_.tensors)
    if (!names.insert(tensor.name).second)
      fail_input("{}: tensor {} is in two files of the model", path_, printable(tensor.name));
  if (has(split_tensors) && integer(split_tensors) != std::ssize(header_.tensors))
    fail_input("{}: its files hold {} tensors, and key {} says {}; fetch them again", path_, header_.tensors.size(),
               split_tensors, integer(split_tensors));
}

std::uint64_t GgufFile::bytes() const {
  std::uint64_t bytes = 0;
  for (const MappedFile& file : files_) bytes += file.bytes().size();
  return bytes;
}

const GgufTensor* GgufFile::find(std::string_view name) const {
  const auto found = std::find_if(header_.tensors.begin(), header_.tensors.end(),
                                  [&](const GgufTensor& tensor) { return tensor.name == name; });
  return found == header_.tensors.end() ? nullptr : &*found;
}

template <class T>
const T& GgufFile::value(const std::string& key, const char* kind) const {
  const auto found = header_.metadata.find(key);
  if (found == header_.metadata.end()) fail_input("{}: key {} is missing", path_, printable(key));
  if (const T* value = std::get_if<T>(&found->second)) return *value;
  fail_input("{}: key {} is not {}", path_, printable(key), kind);
}

std::int64_t GgufFile::integer(const std::string& key) const { return value<std::int64_t>(key, "a whole number"); }
double GgufFile::real(const std::string& key) const {
  const auto found = header_.metadata.find(key);
  if (found != header_.metadata.end())
    if (const auto* whole = std::get_if<std::int64_t>(&found->second)) return static_cast<double>(*whole);
  return value<double>(key, "a number");
}
bool GgufFile::flag(const std::string& key) const { return value<bool>(key, "true or false"); }
const std::string& GgufFile::text(const std::string& key) const { return value<std::string>(key, "a text"); }
const std::vector<std::string>& GgufFile::texts(const std::string& key) const {
  return value<std::vector<std::string>>(key, "a list of texts");
}
const std::vector<std::int64_t>& GgufFile::integers(const std::string& key) const {
  return value<std::vector<std::int64_t>>(key, "a list of whole numbers");
}

const std::vector<double>& GgufFile::reals(const std::string& key) const {
  return value<std::vector<double>>(key, "a list of numbers");
}

void GgufFile::read_row(const GgufTensor& tensor, std::int64_t row, std::span<float> out) const {
  COMERA_CHECK(static_cast<std::int64_t>(out.size()) == tensor.columns() && row >= 0 && row < tensor.rows());
  const std::size_t row_bytes = (tensor.end - tensor.begin) / static_cast<std::uint64_t>(tensor.rows());
  dequantise(tensor.type, bytes(tensor).subspan(static_cast<std::size_t>(row) * row_bytes, row_bytes), out);
}

std::span<const std::byte> GgufFile::bytes(const GgufTensor& tensor) const {
  return files_[tensor.part].bytes().subspan(tensor.begin, tensor.end - tensor.begin);
}

void GgufFile::forget(const GgufTensor& tensor) const { files_[tensor.part].forget(bytes(tensor)); }

}  // namespace comera::io
