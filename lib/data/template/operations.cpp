#include "lib/data/template/operations.h"

#include <algorithm>
#include <cmath>

#include "lib/data/template/interpreter.h"
#include "lib/data/template/methods.h"
#include "lib/data/template/python_text.h"

namespace comera::data::jinja {
namespace {

[[noreturn]] void fail_types(std::string_view sign, const Value& left, const Value& right) {
  require_defined(left);
  require_defined(right);
  fail_template("'{}' has no meaning between values of the types {} and {}", sign, type_name(left), type_name(right));
}

std::int64_t checked(bool overflow, std::int64_t number) {
  if (overflow) fail_template("a whole number is larger than 64 bits");
  return number;
}

std::int64_t power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  for (std::int64_t i = 0; i < exponent && base != 1; ++i) {
    if (base == 0 || base == -1) return base == 0 ? 0 : exponent % 2 == 0 ? 1 : -1;
    const bool overflow = __builtin_mul_overflow(result, base, &result);
    result = checked(overflow, result);
  }
  return result;
}

// Python rounds down: the rest has the sign of the divisor.
Value divided(std::string_view sign, std::int64_t a, std::int64_t b) {
  if (b == 0) fail_template("division by zero");
  if (b == -1) {
    std::int64_t result = 0;
    const bool overflow = __builtin_sub_overflow(std::int64_t{0}, a, &result);
    return sign == "%" ? Value(std::int64_t{0}) : Value(checked(overflow, result));
  }
  std::int64_t quotient = a / b, rest = a % b;
  if (rest != 0 && (rest < 0) != (b < 0)) {
    --quotient;
    rest += b;
  }
  return sign == "%" ? rest : quotient;
}

Value whole_result(std::string_view sign, std::int64_t a, std::int64_t b) {
  if (sign == "+" || sign == "-" || sign == "*") {
    std::int64_t result = 0;
    const bool overflow = sign == "+"   ? __builtin_add_overflow(a, b, &result)
                          : sign == "-" ? __builtin_sub_overflow(a, b, &result)
                                        : __builtin_mul_overflow(a, b, &result);
    return checked(overflow, result);
  }
  if (sign == "**") return b < 0 ? Value(std::pow(static_cast<double>(a), static_cast<double>(b))) : Value(power(a, b));
  if (sign != "/") return divided(sign, a, b);
  if (b == 0) fail_template("division by zero");
  return static_cast<double>(a) / static_cast<double>(b);
}

Value real_result(std::string_view sign, double a, double b) {
  if (sign == "+") return a + b;
  if (sign == "-") return a - b;
  if (sign == "*") return a * b;
  if (sign == "**") return std::pow(a, b);
  if (b == 0) fail_template("division by zero");
  if (sign == "/") return a / b;
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  return sign == "%" ? rest : std::floor((a - rest) / b + 0.5);
}

Value joined_texts(const std::string& a, const std::string& b, Meter& meter) {
  meter.text(a.size() + b.size());
  return a + b;
}

Value joined_lists(const Value& a, const Value& b, Meter& meter) {
  std::vector<Value> items = a.list().items;
  meter.step(items.size() + b.list().items.size());
  items.insert(items.end(), b.list().items.begin(), b.list().items.end());
  return Value::list(std::move(items), a.list().tuple);
}

Value repeated(const Value& value, std::int64_t times, Meter& meter) {
  const auto count = static_cast<std::uint64_t>(std::clamp<std::int64_t>(times, 0, std::int64_t{1} << 32));
  if (value.is(Type::text)) {
    const std::uint64_t bytes = value.text().size() * count;  // 2^25 * 2^32 at most
    meter.text(bytes);
    std::string text;
    for (std::uint64_t i = 0; i < count && !value.text().empty(); ++i) text += value.text();
    return text;
  }
  meter.step(value.list().items.size() * count);
  std::vector<Value> items;
  for (std::uint64_t i = 0; i < count && !value.list().items.empty(); ++i)
    items.insert(items.end(), value.list().items.begin(), value.list().items.end());
  return Value::list(std::move(items), value.list().tuple);
}

bool contains(const Value& all, const Value& one, Meter& meter) {
  if (all.is(Type::text)) {
    meter.step(1 + all.text().size() / 64);
    return all.text().find(text_required(one, "'in' a text")) != std::string::npos;
  }
  if (all.is(Type::dict)) return one.is(Type::text) && all.find(one.text(), meter) != nullptr;
  const std::vector<Value> items = items_of(all, meter);
  return std::any_of(items.begin(), items.end(), [&](const Value& item) { return equal(item, one, meter); });
}

Value member_of_loop(const LoopState& loop, const std::string& name) {
  const auto count = static_cast<std::int64_t>(loop.items.size());
  const auto index = static_cast<std::int64_t>(loop.index);
  if (name == "index") return index + 1;
  if (name == "index0") return index;
  if (name == "revindex") return count - index;
  if (name == "revindex0") return count - index - 1;
  if (name == "first") return index == 0;
  if (name == "last") return index + 1 == count;
  if (name == "length") return count;
  if (name == "depth") return std::int64_t{1};
  if (name == "depth0") return std::int64_t{0};
  if (name == "previtem") return index > 0 ? loop.items[loop.index - 1] : Value::undefined("there is no previous item");
  if (name == "nextitem")
    return index + 1 < count ? loop.items[loop.index + 1] : Value::undefined("there is no next item");
  return Value::undefined("loop." + name);
}

// The place of an index that counts from the end if it is negative; none outside.
std::optional<std::size_t> place_of(std::int64_t index, std::size_t size) {
  const auto count = static_cast<std::int64_t>(size);
  if (index < 0) index += count;
  if (index < 0 || index >= count) return std::nullopt;
  return static_cast<std::size_t>(index);
}

struct Slice {
  std::int64_t begin, end, step;
};

// As Python's slice.indices().
Slice slice_in(std::int64_t size, const std::optional<Value>& begin, const std::optional<Value>& end,
               const std::optional<Value>& step) {
  const auto given = [](const std::optional<Value>& value) { return value && !value->is(Type::none); };
  const std::int64_t by = given(step) ? whole_of(*step, "the step of a slice") : 1;
  if (by == 0) fail_template("the step of a slice is zero");
  const std::int64_t lowest = by < 0 ? -1 : 0, highest = by < 0 ? size - 1 : size;
  const auto bound = [&](const std::optional<Value>& value, std::int64_t otherwise) {
    if (!given(value)) return otherwise;
    std::int64_t at = whole_of(*value, "the bound of a slice");
    if (at < 0) at = std::max(at, -size - 1) + size;
    return std::clamp(at, lowest, highest);
  };
  return {bound(begin, by < 0 ? highest : lowest), bound(end, by < 0 ? lowest : highest), by};
}

template <class Visit>
void for_each_place(const Slice& slice, Meter& meter, Visit&& visit) {
  for (std::int64_t at = slice.begin; slice.step > 0 ? at < slice.end : at > slice.end;) {
    meter.step();
    visit(static_cast<std::size_t>(at));
    if (__builtin_add_overflow(at, slice.step, &at)) return;
  }
}

}  // namespace

void require_defined(const Value& value) {
  if (value.is(Type::undefined)) fail_template("'{}' is undefined", value.undefined_name());
}

std::int64_t whole_of(const Value& value, std::string_view what) {
  require_defined(value);
  if (!value.is_whole()) fail_template("{} must be a whole number, is a {}", what, type_name(value));
  return value.whole();
}

const std::string& text_required(const Value& value, std::string_view what) {
  require_defined(value);
  if (!value.is(Type::text)) fail_template("{} must be a text, is a {}", what, type_name(value));
  return value.text();
}

Value calculate(std::string_view sign, const Value& left, const Value& right, Meter& meter) {
  if (sign == "~") {
    const std::string a = text_of(left, meter), b = text_of(right, meter);
    return joined_texts(a, b, meter);
  }
  if (left.is_whole() && right.is_whole()) return whole_result(sign, left.whole(), right.whole());
  if (left.is_number() && right.is_number()) return real_result(sign, left.real(), right.real());
  const auto sequence = [](const Value& value) { return value.is(Type::text) || value.is(Type::list); };
  if (sign == "+" && left.is(Type::text) && right.is(Type::text)) return joined_texts(left.text(), right.text(), meter);
  if (sign == "+" && left.is(Type::list) && right.is(Type::list) && left.list().tuple == right.list().tuple)
    return joined_lists(left, right, meter);
  if (sign == "*" && sequence(left) && right.is_whole()) return repeated(left, right.whole(), meter);
  if (sign == "*" && left.is_whole() && sequence(right)) return repeated(right, left.whole(), meter);
  if (sign == "%" && left.is(Type::text)) fail_template("texts are not formatted by '%'; join them by '~'");
  fail_types(sign, left, right);
}

bool compare(std::string_view sign, const Value& left, const Value& right, Meter& meter) {
  if (sign == "==") return equal(left, right, meter);
  if (sign == "!=") return !equal(left, right, meter);
  if (sign == "in") return contains(right, left, meter);
  if (sign == "not in") return !contains(right, left, meter);
  if (sign == "<") return less(left, right, meter);
  if (sign == ">") return less(right, left, meter);
  const bool unordered = left.is_number() && right.is_number() && (std::isnan(left.real()) || std::isnan(right.real()));
  return (sign == "<=" ? !less(right, left, meter) : !less(left, right, meter)) && !unordered;
}

std::vector<Value> items_of(const Value& value, Meter& meter) {
  std::vector<Value> items;
  switch (value.type()) {
    case Type::undefined: break;
    case Type::list: items = value.list().items; break;
    case Type::text:
      for (const std::string_view character : characters(value.text())) items.emplace_back(character);
      break;
    case Type::dict:
      for (const auto& [key, member] : value.dict().members) items.emplace_back(key);
      break;
    default: fail_template("a {} has no items", type_name(value));
  }
  meter.step(items.size());
  return items;
}

std::int64_t length_of_value(const Value& value) {
  switch (value.type()) {
    case Type::undefined: return 0;
    case Type::text: return length_of(value.text());
    case Type::list: return std::ssize(value.list().items);
    case Type::dict: return std::ssize(value.dict().members);
    default: fail_template("a {} has no length", type_name(value));
  }
}

Value member_of(const Value& value, const std::string& name, Meter& meter) {
  require_defined(value);
  if (value.is(Type::loop)) return member_of_loop(value.loop(), name);
  if (name.starts_with("__")) fail_template("the attribute '{}' is not read", name);
  if (value.is(Type::name_space)) {
    const auto found = value.name_space().members.find(name);
    return found != value.name_space().members.end() ? found->second : Value::undefined(name);
  }
  if (is_method(value, name)) fail_template("the method '{}' is read only where it is called", name);
  if (value.is(Type::dict))
    if (const Value* member = value.find(name, meter)) return *member;
  return Value::undefined(fmt::format("{} object' has no attribute '{}", type_name(value), name));
}

Value item_of(const Value& value, const Value& key, Meter& meter) {
  require_defined(value);
  const auto missing = [&] {
    return Value::undefined(fmt::format("{} object' has no element '{}", type_name(value), text_of(key, meter)));
  };
  if (value.is(Type::list) && key.is_whole()) {
    const auto place = place_of(key.whole(), value.list().items.size());
    return place ? value.list().items[*place] : missing();
  }
  if (value.is(Type::text) && key.is_whole()) {
    meter.step(1 + value.text().size() / 16);
    const std::vector<std::string_view> all = characters(value.text());
    const auto place = place_of(key.whole(), all.size());
    return place ? Value(all[*place]) : missing();
  }
  if (!key.is(Type::text)) return missing();
  if (value.is(Type::dict)) {
    const Value* member = value.find(key.text(), meter);
    if (member) return *member;
  }
  return member_of(value, key.text(), meter);
}

Value slice_of(const Value& value, const std::optional<Value>& begin, const std::optional<Value>& end,
               const std::optional<Value>& step, Meter& meter) {
  require_defined(value);
  if (value.is(Type::text)) {
    meter.step(1 + value.text().size() / 16);
    const std::vector<std::string_view> all = characters(value.text());
    std::string text;
    for_each_place(slice_in(std::ssize(all), begin, end, step), meter, [&](std::size_t at) { text += all[at]; });
    return text;
  }
  if (!value.is(Type::list)) fail_template("a {} has no slices", type_name(value));
  std::vector<Value> items;
  for_each_place(slice_in(std::ssize(value.list().items), begin, end, step), meter,
                 [&](std::size_t at) { items.push_back(value.list().items[at]); });
  return Value::list(std::move(items), value.list().tuple);
}

}  // namespace comera::data::jinja
