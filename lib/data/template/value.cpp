#include "lib/data/template/value.h"

#include <utf8proc.h>

#include <algorithm>
#include <cmath>

#include "lib/data/tokenizer/unicode.h"

namespace comera::data::jinja {
namespace {

constexpr int deepest = 100;

int deeper(int below) {
  if (below >= deepest) fail_template("nests values deeper than {}", deepest);
  return below + 1;
}

int depth_of(const Value& value) {
  if (value.is(Type::list)) return value.list().depth;
  return value.is(Type::dict) ? value.dict().depth : 0;
}

bool equal_lists(const std::vector<Value>& a, const std::vector<Value>& b, Meter& meter) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!equal(a[i], b[i], meter)) return false;
  return true;
}

bool equal_dicts(const Value& a, const Value& b, Meter& meter) {
  if (a.dict().members.size() != b.dict().members.size()) return false;
  for (const auto& [key, value] : a.dict().members) {
    const Value* other = b.find(key, meter);
    if (!other || !equal(value, *other, meter)) return false;
  }
  return true;
}

bool equal_numbers(const Value& a, const Value& b) {
  return a.is_whole() && b.is_whole() ? a.whole() == b.whole() : a.real() == b.real();
}

// Python's shortest text that gives the same number.
std::string text_of_real(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", number);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

bool is_printable(std::uint32_t point) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(point))) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return false;
    case UTF8PROC_CATEGORY_ZS: return point == ' ';
    default: return true;
  }
}

std::string quoted(const std::string& text) {
  const char quote = text.find('\'') != std::string::npos && text.find('"') == std::string::npos ? '"' : '\'';
  std::string result(1, quote);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const std::uint32_t point = next_code_point(text, at);
    if (point == static_cast<unsigned char>(quote) || point == '\\')
      (result += '\\') += static_cast<char>(point);
    else if (point == '\n' || point == '\r' || point == '\t')
      result += point == '\n' ? "\\n" : point == '\r' ? "\\r" : "\\t";
    else if (is_printable(point))
      result.append(text, begin, at - begin);
    else
      result += point < 0x100     ? fmt::format("\\x{:02x}", point)
                : point < 0x10000 ? fmt::format("\\u{:04x}", point)
                                  : fmt::format("\\U{:08x}", point);
  }
  return result + quote;
}

std::string repr_of_list(const ListBody& list, Meter& meter) {
  std::string text(1, list.tuple ? '(' : '[');
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) text += ", ";
    const std::string item = repr_of(list.items[i], meter);
    meter.append(text.size(), item.size());
    text += item;
  }
  if (list.tuple && list.items.size() == 1) text += ',';
  return text + (list.tuple ? ')' : ']');
}

std::string repr_of_dict(const DictBody& dict, Meter& meter) {
  std::string text = "{";
  for (const auto& [key, value] : dict.members) {
    if (text.size() > 1) text += ", ";
    const std::string member = quoted(key) + ": " + repr_of(value, meter);
    meter.append(text.size(), member.size());
    text += member;
  }
  return text + "}";
}

}  // namespace

Value Value::undefined(std::string name) {
  Value value;
  value.held_ = Undefined{std::move(name)};
  return value;
}

Value Value::list(std::vector<Value> items, bool tuple) {
  int below = 0;
  bool plain = true;
  for (const Value& item : items) {
    below = std::max(below, depth_of(item));
    plain = plain && is_plain(item);
  }
  Value value;
  value.held_ = std::make_shared<const ListBody>(ListBody{std::move(items), tuple, deeper(below), plain});
  return value;
}

Value Value::dict(Members members) {
  int below = 0;
  bool plain = true;
  for (const auto& [key, member] : members) {
    below = std::max(below, depth_of(member));
    plain = plain && is_plain(member);
  }
  Value value;
  value.held_ = std::make_shared<const DictBody>(DictBody{std::move(members), deeper(below), plain});
  return value;
}

Value Value::of_json(const io::Json& json) {
  if (json.is_null()) return nullptr;
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_unsigned() && json.get<std::uint64_t>() > INT64_MAX) return json.get<double>();
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_array()) {
    std::vector<Value> items;
    for (const io::Json& item : json) items.push_back(of_json(item));
    return list(std::move(items));
  }
  Members members;
  for (const auto& [key, value] : json.items()) members.emplace_back(key, of_json(value));
  return dict(std::move(members));
}

bool Value::same_as(const Value& other) const {
  if (type() != other.type()) return false;
  switch (type()) {
    case Type::undefined: return false;
    case Type::none: return true;
    case Type::boolean:
    case Type::integer: return whole() == other.whole();
    case Type::real: return real() == other.real();
    case Type::text: return text() == other.text();
    default: return held_ == other.held_;
  }
}

const Value* Value::find(std::string_view key, Meter& meter) const {
  const Members& members = dict().members;
  meter.step(1 + members.size() / 16);
  for (const auto& [name, value] : members)
    if (name == key) return &value;
  return nullptr;
}

const char* type_name(const Value& value) {
  constexpr const char* names[] = {"undefined", "None", "bool",      "int",   "float",      "str",
                                   "list",      "dict", "namespace", "macro", "loop object"};
  return value.is(Type::list) && value.list().tuple ? "tuple" : names[static_cast<std::size_t>(value.type())];
}

bool is_plain(const Value& value) {
  if (value.is(Type::list)) return value.list().plain;
  if (value.is(Type::dict)) return value.dict().plain;
  return !value.is(Type::name_space) && !value.is(Type::macro) && !value.is(Type::loop);
}

bool is_true(const Value& value) {
  switch (value.type()) {
    case Type::undefined:
    case Type::none: return false;
    case Type::boolean:
    case Type::integer: return value.whole() != 0;
    case Type::real: return value.real() != 0;
    case Type::text: return !value.text().empty();
    case Type::list: return !value.list().items.empty();
    case Type::dict: return !value.dict().members.empty();
    default: return true;
  }
}

bool equal(const Value& a, const Value& b, Meter& meter) {
  meter.step();
  if (a.is_number() && b.is_number()) return equal_numbers(a, b);
  if (a.type() != b.type()) return false;
  switch (a.type()) {
    case Type::undefined: return true;
    case Type::text: return a.text() == b.text();
    case Type::list: return a.list().tuple == b.list().tuple && equal_lists(a.list().items, b.list().items, meter);
    case Type::dict: return equal_dicts(a, b, meter);
    default: return a.same_as(b);
  }
}

bool less(const Value& a, const Value& b, Meter& meter) {
  meter.step();
  if (a.is_whole() && b.is_whole()) return a.whole() < b.whole();
  if (a.is_number() && b.is_number()) return a.real() < b.real();
  if (a.is(Type::text) && b.is(Type::text)) return a.text() < b.text();
  if (a.is(Type::list) && b.is(Type::list) && a.list().tuple == b.list().tuple) {
    const auto& [one, two] = std::pair(a.list().items, b.list().items);
    for (std::size_t i = 0; i < std::min(one.size(), two.size()); ++i)
      if (!equal(one[i], two[i], meter)) return less(one[i], two[i], meter);
    return one.size() < two.size();
  }
  if (a.is(Type::undefined) || b.is(Type::undefined))
    fail_template("'{}' is undefined", a.is(Type::undefined) ? a.undefined_name() : b.undefined_name());
  fail_template("values of the types {} and {} have no order", type_name(a), type_name(b));
}

std::string text_of(const Value& value, Meter& meter) {
  if (value.is(Type::undefined)) return "";
  return value.is(Type::text) ? value.text() : repr_of(value, meter);
}

std::string repr_of(const Value& value, Meter& meter) {
  meter.step();
  switch (value.type()) {
    case Type::undefined: return "Undefined";
    case Type::none: return "None";
    case Type::boolean: return value.flag() ? "True" : "False";
    case Type::integer: return fmt::format("{}", value.whole());
    case Type::real: return text_of_real(value.real());
    case Type::text: meter.text(value.text().size()); return quoted(value.text());
    case Type::list: return repr_of_list(value.list(), meter);
    case Type::dict: return repr_of_dict(value.dict(), meter);
    default: fail_template("a {} cannot be written as text", type_name(value));
  }
}

}  // namespace comera::data::jinja
