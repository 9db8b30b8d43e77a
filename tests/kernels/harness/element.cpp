#include "tests/kernels/harness/element.h"

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <sstream>

namespace comera::kernels::test {
namespace {

constexpr double f32_roundoff = 0x1p-24, f64_roundoff = 0x1p-53;
// Allowance for the terms that the first-order analysis omits, for roundings * u below one hundredth.
constexpr double second_order = 1.01;
constexpr double underflow = 1e-36;  // results below the normal numbers may be flushed to zero before scaling

template <class T>
T load(const void* element) {
  T value;
  std::memcpy(&value, element, sizeof value);
  return value;
}
template <class T>
void store(void* element, const T& value) {
  std::memcpy(element, &value, sizeof value);
}

bool is_number(Content kind) { return kind == Content::real || kind == Content::wide; }

double f32_value(Content kind, const void* element) {
  return kind == Content::real ? load<float>(element) : load<double>(element);
}

bool is_poison(Content kind, const void* element) {
  double poison = 0;
  set_poison(&poison, kind, Representation::f32);
  return std::memcmp(element, &poison, element_bytes(kind, Representation::f32)) == 0;
}

Difference failed(std::int64_t index, const std::string& text) {
  return {std::numeric_limits<double>::infinity(), index, text};
}

std::string numbers(double got, double wanted, double bound) {
  std::ostringstream text;
  text.precision(9);
  text << "is " << got << ", wanted " << wanted << " within " << bound;
  return text.str();
}

Difference against(std::int64_t index, double got, double wanted, double bound) {
  if (got == wanted) return {0, index, ""};
  const double fraction = std::abs(got - wanted) / bound;
  if (std::isnan(fraction)) return failed(index, numbers(got, wanted, bound));
  return {fraction, index, numbers(got, wanted, bound)};
}

Difference compare_number(const Tensor& t, std::int64_t i, const std::uint8_t* got, const std::uint8_t* before,
                          const Tracked& wanted) {
  if (wanted.is_unwritten()) {
    const bool kept = t.loose || std::memcmp(got, before, element_bytes(t.kind, Representation::f32)) == 0;
    return kept ? Difference{0, i, ""} : failed(i, "was written, but lies outside of the result");
  }
  if (std::isnan(wanted.value)) return failed(i, "the reference itself read what was never written");
  const double bound =
      wanted.roundings == 0 ? 0 : second_order * wanted.roundings * f32_roundoff * wanted.magnitude + underflow;
  return against(i, f32_value(t.kind, got), wanted.value, bound);
}

Difference compare_element(const Tensor& t, std::int64_t i, const std::uint8_t* got, const std::uint8_t* before,
                           const std::uint8_t* tracked) {
  if (is_number(t.kind)) return compare_number(t, i, got, before, load<Tracked>(tracked));
  if (t.kind == Content::f64) {
    const double wanted = load<double>(tracked);
    return against(i, load<double>(got), wanted, t.f64_roundings * f64_roundoff * std::abs(wanted));
  }
  const bool equal = std::memcmp(got, tracked, element_bytes(t.kind, Representation::f32)) == 0;
  return equal ? Difference{0, i, ""} : failed(i, "differs from the reference's, and must be equal");
}

}  // namespace

std::size_t element_bytes(Content kind, Representation representation) {
  switch (kind) {
    case Content::bytes: return 1;
    case Content::i32: return 4;
    case Content::i64:
    case Content::f64: return 8;
    case Content::real:
    case Content::wide: break;
  }
  switch (representation) {
    case Representation::f32: return kind == Content::real ? 4 : 8;
    case Representation::f64: return 8;
    case Representation::c128: return 16;
    case Representation::tracked: break;
  }
  return sizeof(Tracked);
}

void set_poison(void* element, Content kind, Representation representation) {
  if (is_number(kind) && representation == Representation::tracked) return store(element, Tracked::unwritten());
  const std::uint64_t wide[2] = {0x7FF8BEEFBEEFBEEFu, 0x7FF8BEEFBEEFBEEFu};  // NaN
  const std::uint32_t narrow = 0x7FC0BEEFu;
  const std::size_t bytes = element_bytes(kind, representation);
  std::memcpy(element, bytes <= 4 ? static_cast<const void*>(&narrow) : wide, bytes);
}

void set_element(void* element, Content kind, Representation representation, double value) {
  if (kind == Content::i32) return store(element, static_cast<std::int32_t>(value));
  if (kind == Content::i64) return store(element, static_cast<std::int64_t>(value));
  if (kind == Content::f64) return store(element, value);
  if (representation == Representation::c128) return store(element, std::complex<double>(value));
  if (representation == Representation::tracked) return store(element, Tracked(value, std::abs(value), 0));
  if (representation == Representation::f32 && kind == Content::real) return store(element, static_cast<float>(value));
  store(element, value);
}

Buffer to_tracked(const Tensor& t, const Buffer& f32) {
  const std::size_t from = element_bytes(t.kind, Representation::f32),
                    to = element_bytes(t.kind, Representation::tracked);
  Buffer tracked(t.rows * t.ld * to);
  for (std::int64_t i = 0; i < t.rows * t.ld; ++i) {
    const std::uint8_t* element = f32.data() + i * from;
    if (!is_number(t.kind)) {
      std::memcpy(tracked.data() + i * to, element, to);
    } else if (is_poison(t.kind, element)) {
      set_poison(tracked.data() + i * to, t.kind, Representation::tracked);
    } else {
      set_element(tracked.data() + i * to, t.kind, Representation::tracked, f32_value(t.kind, element));
    }
  }
  return tracked;
}

void from_tracked(const Tensor& t, const Buffer& tracked, Buffer& f32) {
  const std::size_t from = element_bytes(t.kind, Representation::tracked),
                    to = element_bytes(t.kind, Representation::f32);
  for (std::int64_t i = 0; i < t.rows * t.ld; ++i) {
    std::uint8_t* element = f32.data() + i * to;
    if (!is_number(t.kind)) {
      std::memcpy(element, tracked.data() + i * from, to);
      continue;
    }
    const auto value = load<Tracked>(tracked.data() + i * from);
    if (!value.is_unwritten()) set_element(element, t.kind, Representation::f32, value.value);
  }
}

bool same_bytes(const Buffer& a, const Buffer& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

Difference largest_difference(const Tensor& t, const Buffer& got, const Buffer& before, const Buffer& tracked) {
  const std::size_t narrow = element_bytes(t.kind, Representation::f32),
                    wide = element_bytes(t.kind, Representation::tracked);
  Difference worst;
  for (std::int64_t i = 0; i < t.rows * t.ld; ++i) {
    const Difference d =
        compare_element(t, i, got.data() + i * narrow, before.data() + i * narrow, tracked.data() + i * wide);
    if (d.fraction > worst.fraction) worst = d;
  }
  return worst;
}

}  // namespace comera::kernels::test
