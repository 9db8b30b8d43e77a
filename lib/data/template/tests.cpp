// Tests (`value is name`), declared in filters.h.
#include <map>

#include "lib/data/template/filters.h"
#include "lib/data/template/operations.h"
#include "lib/data/template/python_text.h"

namespace comera::data::jinja {
namespace {

using Test = bool (*)(const Value&);

bool is_odd(const Value& value) { return whole_of(value, "the value of the test odd") % 2 != 0; }
bool is_even(const Value& value) { return whole_of(value, "the value of the test even") % 2 == 0; }
bool has_items(const Value& value) {
  return value.is(Type::undefined) || value.is(Type::text) || value.is(Type::list) || value.is(Type::dict);
}
bool is_lower(const Value& value) {
  const std::string& text = text_required(value, "the value of the test lower");
  return lower(text) == text && upper(text) != text;
}
bool is_upper(const Value& value) {
  const std::string& text = text_required(value, "the value of the test upper");
  return upper(text) == text && lower(text) != text;
}

const std::map<std::string, Test, std::less<>>& plain_tests() {
  static const std::map<std::string, Test, std::less<>> known = {
      {"defined", [](const Value& value) { return !value.is(Type::undefined); }},
      {"undefined", [](const Value& value) { return value.is(Type::undefined); }},
      {"none", [](const Value& value) { return value.is(Type::none); }},
      {"boolean", [](const Value& value) { return value.is(Type::boolean); }},
      {"true", [](const Value& value) { return value.is(Type::boolean) && value.flag(); }},
      {"false", [](const Value& value) { return value.is(Type::boolean) && !value.flag(); }},
      {"integer", [](const Value& value) { return value.is(Type::integer); }},
      {"float", [](const Value& value) { return value.is(Type::real); }},
      {"number", [](const Value& value) { return value.is_number(); }},
      {"string", [](const Value& value) { return value.is(Type::text); }},
      {"mapping", [](const Value& value) { return value.is(Type::dict); }},
      {"sequence", has_items},
      {"iterable", has_items},
      {"callable", [](const Value& value) { return value.is(Type::macro); }},
      {"odd", is_odd},
      {"even", is_even},
      {"lower", is_lower},
      {"upper", is_upper}};
  return known;
}

// The operator of a test with one argument; empty if the name is none.
std::string_view sign_of(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> signs[] = {
      {"==", "=="},         {"eq", "=="}, {"equalto", "=="}, {"!=", "!="},      {"ne", "!="}, {"<", "<"},
      {"lt", "<"},          {"<=", "<="}, {"le", "<="},      {"lessthan", "<"}, {">", ">"},   {"gt", ">"},
      {"greaterthan", ">"}, {">=", ">="}, {"ge", ">="},      {"in", "in"}};
  for (const auto& [known, sign] : signs)
    if (known == name) return sign;
  return "";
}

}  // namespace

bool apply_test(const std::string& name, const Value& value, const Arguments& arguments, Context& context) {
  context.meter.step();
  if (const auto found = plain_tests().find(name); found != plain_tests().end()) {
    arguments.bound({});
    return found->second(value);
  }
  const auto other = [&] {
    const auto bound = arguments.bound({"other"})[0];
    if (!bound) fail_template("the test '{}' needs an argument", name);
    return *bound;
  };
  if (const std::string_view sign = sign_of(name); !sign.empty()) return compare(sign, value, other(), context.meter);
  if (name == "sameas") return value.same_as(other());
  if (name == "divisibleby") {
    const std::int64_t by = whole_of(other(), "the argument of divisibleby");
    if (by == 0) fail_template("division by zero");
    return by == -1 || whole_of(value, "the value of divisibleby") % by == 0;
  }
  if (name == "filter") return is_filter(text_required(value, "the name of a filter"));
  fail_template("the test '{}' is not read", name);
}

}  // namespace comera::data::jinja
