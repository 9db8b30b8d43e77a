#include "lib/io/weight_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "lib/core/error.h"
#include "lib/core/half.h"
#include "lib/core/join.h"
#include "lib/core/terminal/log.h"

namespace comera::io {
namespace {

struct TypeInfo {
  const char* name;
  std::size_t size;
};
constexpr std::array<TypeInfo, 15> types{{{"F64", 8},
                                          {"F32", 4},
                                          {"F16", 2},
                                          {"BF16", 2},
                                          {"I64", 8},
                                          {"I32", 4},
                                          {"I16", 2},
                                          {"I8", 1},
                                          {"U64", 8},
                                          {"U32", 4},
                                          {"U16", 2},
                                          {"U8", 1},
                                          {"BOOL", 1},
                                          {"F8_E4M3", 1},
                                          {"F8_E5M2", 1}}};

template <class Stored, class Convert>
void read_as(std::span<const std::byte> bytes, std::span<float> out, Convert convert) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, bytes.data() + i * sizeof stored, sizeof stored);  // the data in a file may be unaligned
    out[i] = convert(stored);
  }
}

template <class Stored, class Convert>
void write_as(std::span<const float> values, std::span<std::byte> out, Convert convert) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Stored stored = convert(values[i]);
    std::memcpy(out.data() + i * sizeof stored, &stored, sizeof stored);
  }
}

void require_floating(const WeightFile& file, const StoredTensor& tensor) {
  if (!is_floating(tensor.type))
    fail_input("{}: tensor {}: {} cannot be read as float; convert it to F32, F16 or BF16", file.path(),
               printable(tensor.name), name_of(tensor.type));
}

}  // namespace

StoredBytes::StoredBytes(std::vector<std::byte> made) : made_(std::move(made)), bytes_(made_) {}
StoredBytes::StoredBytes(StoredBytes&&) noexcept = default;
StoredBytes& StoredBytes::operator=(StoredBytes&&) noexcept = default;
StoredBytes::~StoredBytes() = default;

const char* name_of(StoredType type) { return types[static_cast<std::size_t>(type)].name; }
std::size_t size_of(StoredType type) { return types[static_cast<std::size_t>(type)].size; }
bool is_floating(StoredType type) { return type <= StoredType::BF16; }

std::int64_t elements_of(const FileShape& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) {
    if (size == 0) return 0;
    elements *= size;
  }
  return elements;
}

std::string to_string(const FileShape& shape) { return fmt::format("[{}]", join(shape, ", ")); }

std::optional<StoredType> stored_type_named(std::string_view name) {
  for (std::size_t i = 0; i < types.size(); ++i)
    if (name == types[i].name) return static_cast<StoredType>(i);
  return std::nullopt;
}

void to_floats(StoredType type, std::span<const std::byte> bytes, std::span<float> out) {
  COMERA_CHECK(bytes.size() == out.size() * size_of(type));
  switch (type) {
    case StoredType::F32:
      if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
      return;
    case StoredType::F64: return read_as<double>(bytes, out, [](double value) { return static_cast<float>(value); });
    case StoredType::F16: return read_as<std::uint16_t>(bytes, out, half_to_float);
    case StoredType::BF16: return read_as<std::uint16_t>(bytes, out, bf16_to_float);
    default: COMERA_CHECK(is_floating(type));
  }
}

void from_floats(std::span<const float> values, StoredType type, std::span<std::byte> out) {
  COMERA_CHECK(out.size() == values.size() * size_of(type));
  switch (type) {
    case StoredType::F32:
      if (!values.empty()) std::memcpy(out.data(), values.data(), out.size());
      return;
    case StoredType::F64: return write_as<double>(values, out, [](float value) { return static_cast<double>(value); });
    case StoredType::F16: return write_as<std::uint16_t>(values, out, float_to_half);
    case StoredType::BF16: return write_as<std::uint16_t>(values, out, float_to_bf16);
    default: COMERA_CHECK(is_floating(type));
  }
}

void WeightFile::read_floats(const StoredTensor& tensor, std::span<float> out) const {
  require_floating(*this, tensor);
  if (!out.empty()) read_strip(tensor, 0, out);
}

void WeightFile::read_rows(const StoredTensor& tensor, const TakeRows& take) const {
  constexpr std::int64_t strip = 64;
  require_floating(*this, tensor);
  if (tensor.elements() == 0) return;
  const std::int64_t rows = tensor.rows(), columns = tensor.columns();
  std::vector<float> values(static_cast<std::size_t>(std::min(strip, rows) * columns));
  for (std::int64_t first = 0; first < rows; first += strip) {
    const std::int64_t count = std::min(strip, rows - first);
    const std::span<float> part = std::span(values).first(static_cast<std::size_t>(count * columns));
    read_strip(tensor, first, part);
    for (std::size_t i = 0; i < part.size(); ++i)
      if (!std::isfinite(part[i]))
        fail_input("{}: tensor {}: its element {} is {}; the file is damaged or its training diverged, use another one",
                   path(), printable(tensor.name), static_cast<std::size_t>(first * columns) + i, part[i]);
    take(first, part);
  }
}

}  // namespace comera::io
