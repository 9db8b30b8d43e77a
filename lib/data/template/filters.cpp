#include "lib/data/template/filters.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "lib/data/template/methods.h"
#include "lib/data/template/operations.h"
#include "lib/data/template/python_text.h"

namespace comera::data::jinja {
namespace {

using Filter = Value (*)(const Value&, const Arguments&, Context&);

Value changed_text(const char* method, const Value& value, const Arguments& arguments, Context& context) {
  return call_method(Value(text_of(value, context.meter)), method, arguments, context);
}

Value trim(const Value& value, const Arguments& arguments, Context& context) {
  return changed_text("strip", value, arguments, context);
}
Value upper_case(const Value& value, const Arguments& arguments, Context& context) {
  return changed_text("upper", value, arguments, context);
}
Value lower_case(const Value& value, const Arguments& arguments, Context& context) {
  return changed_text("lower", value, arguments, context);
}
Value capitalize(const Value& value, const Arguments& arguments, Context& context) {
  return changed_text("capitalize", value, arguments, context);
}

// Words begin behind blanks, hyphens and brackets, as in Jinja.
Value title(const Value& value, const Arguments& arguments, Context& context) {
  arguments.bound({});
  const std::string text = text_of(value, context.meter);
  context.meter.text(2 * text.size());
  std::string result, word;
  const auto flush = [&] { result += capitalized(std::exchange(word, "")); };
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view character = character_at(text, at);
    if (is_python_blank(text, at) || std::string_view("-({[<").find(character) != std::string_view::npos) {
      flush();
      result += character;
    } else {
      word += character;
    }
    at += character.size();
  }
  flush();
  return result;
}

Value replace(const Value& value, const Arguments& arguments, Context& context) {
  const auto bound = arguments.bound({"old", "new", "count"});
  if (!bound[0] || !bound[1]) fail_template("the filter replace needs an old and a new text");
  Arguments plain{.placed = {Value(text_of(*bound[0], context.meter)), Value(text_of(*bound[1], context.meter))}};
  if (bound[2] && !bound[2]->is(Type::none)) plain.placed.push_back(*bound[2]);
  return changed_text("replace", value, plain, context);
}

Value length(const Value& value, const Arguments& arguments, Context& context) {
  arguments.bound({});
  if (value.is(Type::text)) context.meter.step(1 + value.text().size() / 64);
  return length_of_value(value);
}

Value otherwise(const Value& value, const Arguments& arguments, Context&) {
  const auto bound = arguments.bound({"default_value", "boolean"});
  const bool takes_other = value.is(Type::undefined) || (bound[1] && is_true(*bound[1]) && !is_true(value));
  return takes_other ? bound[0].value_or(Value("")) : value;
}

Value first(const Value& value, const Arguments& arguments, Context& context) {
  arguments.bound({});
  const std::vector<Value> items = items_of(value, context.meter);
  return items.empty() ? Value::undefined("the first item of an empty list") : items.front();
}

Value last(const Value& value, const Arguments& arguments, Context& context) {
  arguments.bound({});
  const std::vector<Value> items = items_of(value, context.meter);
  return items.empty() ? Value::undefined("the last item of an empty list") : items.back();
}

Value list(const Value& value, const Arguments& arguments, Context& context) {
  arguments.bound({});
  return Value::list(items_of(value, context.meter));
}

Value text(const Value& value, const Arguments& arguments, Context& context) {
  arguments.bound({});
  return text_of(value, context.meter);
}

Value reverse(const Value& value, const Arguments& arguments, Context& context) {
  arguments.bound({});
  std::vector<Value> items = items_of(value, context.meter);
  std::reverse(items.begin(), items.end());
  if (!value.is(Type::text)) return Value::list(std::move(items));
  std::string reversed;
  for (const Value& item : items) reversed += item.text();
  return reversed;
}

// The member `path` of a value, as in "function.name".
Value member_at(const Value& value, const std::string& path, Meter& meter) {
  Value at = value;
  for (const std::string& name : split(path, std::string("."), -1)) {
    const bool number =
        !name.empty() && std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
    at = item_of(at, number ? Value(std::int64_t{std::stoll(name.substr(0, 15))}) : Value(name), meter);
  }
  return at;
}

Value join(const Value& value, const Arguments& arguments, Context& context) {
  const auto bound = arguments.bound({"d", "attribute"});
  std::vector<Value> parts;
  for (const Value& item : items_of(value, context.meter)) {
    const bool by_member = bound[1] && !bound[1]->is(Type::none);
    const Value part =
        by_member ? member_at(item, text_required(*bound[1], "the attribute of join"), context.meter) : item;
    parts.emplace_back(text_of(part, context.meter));
  }
  const std::string between = bound[0] ? text_of(*bound[0], context.meter) : "";
  return call_method(Value(between), "join", {.placed = {Value::list(std::move(parts))}}, context);
}

Value items(const Value& value, const Arguments& arguments, Context& context) {
  if (value.is(Type::undefined)) return Value::list({});
  if (!value.is(Type::dict)) fail_template("the filter items needs a dict, is given a {}", type_name(value));
  return call_method(value, "items", arguments, context);
}

Value whole(const Value& value, const Arguments& arguments, Context&) {
  const auto bound = arguments.bound({"default", "base"});
  const Value fallback = bound[0].value_or(Value(std::int64_t{0}));
  if (bound[1]) fail_template("the base of the filter int is not read");
  if (value.is_whole()) return value.whole();
  require_defined(value);
  double real = 0;
  if (value.is(Type::real)) {
    real = value.real();
  } else if (value.is(Type::text)) {
    const std::string digits = stripped(value.text(), std::nullopt, true, true);
    std::int64_t number = 0;
    const char* const end = digits.data() + digits.size();
    const char* const begin = digits.data() + digits.starts_with('+');
    if (const auto [at, error] = std::from_chars(begin, end, number); error == std::errc{} && at == end) return number;
    if (const auto [at, error] = std::from_chars(begin, end, real); error != std::errc{} || at != end) return fallback;
  } else {
    return fallback;
  }
  return std::abs(real) < 9e18 ? Value(static_cast<std::int64_t>(real)) : fallback;
}

Value real(const Value& value, const Arguments& arguments, Context&) {
  const Value fallback = arguments.bound({"default"})[0].value_or(Value(0.0));
  if (value.is_number()) return value.real();
  require_defined(value);
  if (!value.is(Type::text)) return fallback;
  const std::string digits = stripped(value.text(), std::nullopt, true, true);
  double number = 0;
  const auto [at, error] =
      std::from_chars(digits.data() + digits.starts_with('+'), digits.data() + digits.size(), number);
  return error == std::errc{} && at == digits.data() + digits.size() ? Value(number) : fallback;
}

Value absolute(const Value& value, const Arguments& arguments, Context&) {
  arguments.bound({});
  if (value.is(Type::real)) return std::abs(value.real());
  const std::int64_t number = whole_of(value, "the value of the filter abs");
  if (number == INT64_MIN) fail_template("a whole number is larger than 64 bits");
  return std::abs(number);
}

// map(attribute="name", default=...), map("filter", ...).
Value map(const Value& value, const Arguments& arguments, Context& context) {
  std::vector<Value> made;
  const auto attribute = std::find_if(arguments.named.begin(), arguments.named.end(),
                                      [](const auto& one) { return one.first == "attribute"; });
  if (arguments.placed.empty()) {
    const auto bound = arguments.bound({"attribute", "default"});
    if (attribute == arguments.named.end()) fail_template("the filter map needs a filter or an attribute");
    for (const Value& item : items_of(value, context.meter)) {
      Value member = member_at(item, text_required(attribute->second, "the attribute of map"), context.meter);
      made.push_back(member.is(Type::undefined) && bound[1] ? *bound[1] : std::move(member));
    }
    return Value::list(std::move(made));
  }
  const std::string& name = text_required(arguments.placed[0], "the filter of map");
  const Arguments rest{{arguments.placed.begin() + 1, arguments.placed.end()}, arguments.named};
  for (const Value& item : items_of(value, context.meter)) made.push_back(apply_filter(name, item, rest, context));
  return Value::list(std::move(made));
}

Value chosen(const Value& value, const Arguments& arguments, Context& context, bool by_member, bool wanted) {
  std::size_t at = 0;
  std::string path;
  if (by_member) {
    if (arguments.placed.empty()) fail_template("selectattr and rejectattr need an attribute");
    path = text_required(arguments.placed[at++], "the attribute");
  }
  std::string test;
  if (arguments.placed.size() > at) test = text_required(arguments.placed[at++], "the name of the test");
  const Arguments rest{{arguments.placed.begin() + static_cast<std::ptrdiff_t>(at), arguments.placed.end()}, {}};
  if (!arguments.named.empty()) fail_template("select and reject take no named arguments");
  std::vector<Value> kept;
  for (const Value& item : items_of(value, context.meter)) {
    const Value subject = by_member ? member_at(item, path, context.meter) : item;
    if ((test.empty() ? is_true(subject) : apply_test(test, subject, rest, context)) == wanted) kept.push_back(item);
  }
  return Value::list(std::move(kept));
}

Value select(const Value& value, const Arguments& arguments, Context& context) {
  return chosen(value, arguments, context, false, true);
}
Value reject(const Value& value, const Arguments& arguments, Context& context) {
  return chosen(value, arguments, context, false, false);
}
Value select_by_member(const Value& value, const Arguments& arguments, Context& context) {
  return chosen(value, arguments, context, true, true);
}
Value reject_by_member(const Value& value, const Arguments& arguments, Context& context) {
  return chosen(value, arguments, context, true, false);
}

// Lines behind the first get blanks in front; empty ones only with `blank`.
Value indent(const Value& value, const Arguments& arguments, Context& context) {
  const auto bound = arguments.bound({"width", "first", "blank"});
  std::string blanks = "    ";
  if (bound[0] && bound[0]->is(Type::text)) blanks = bound[0]->text();
  if (bound[0] && !bound[0]->is(Type::text))
    blanks.assign(
        static_cast<std::size_t>(std::clamp<std::int64_t>(whole_of(*bound[0], "the width of indent"), 0, 1000)), ' ');
  const bool at_first = bound[1] && is_true(*bound[1]), at_empty = bound[2] && is_true(*bound[2]);
  const std::vector<std::string> lines = split_lines(text_of(value, context.meter) + "\n", false);
  context.meter.text(text_of(value, context.meter).size() + lines.size() * blanks.size());
  std::string result;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) result += '\n';
    if (i == 0 ? at_first : at_empty || !lines[i].empty()) result += blanks;
    result += lines[i];
  }
  return result;
}

const std::map<std::string, Filter, std::less<>>& filters() {
  static const std::map<std::string, Filter, std::less<>> known = {{"trim", trim},
                                                                   {"upper", upper_case},
                                                                   {"lower", lower_case},
                                                                   {"capitalize", capitalize},
                                                                   {"title", title},
                                                                   {"replace", replace},
                                                                   {"length", length},
                                                                   {"count", length},
                                                                   {"default", otherwise},
                                                                   {"d", otherwise},
                                                                   {"first", first},
                                                                   {"last", last},
                                                                   {"list", list},
                                                                   {"string", text},
                                                                   {"reverse", reverse},
                                                                   {"join", join},
                                                                   {"items", items},
                                                                   {"int", whole},
                                                                   {"float", real},
                                                                   {"abs", absolute},
                                                                   {"map", map},
                                                                   {"select", select},
                                                                   {"reject", reject},
                                                                   {"selectattr", select_by_member},
                                                                   {"rejectattr", reject_by_member},
                                                                   {"indent", indent},
                                                                   {"tojson", to_json}};
  return known;
}

}  // namespace

bool is_filter(const std::string& name) { return filters().contains(name); }

Value apply_filter(const std::string& name, const Value& value, const Arguments& arguments, Context& context) {
  const auto found = filters().find(name);
  if (found == filters().end()) fail_template("the filter '{}' is not read", name);
  const Level level(context.meter);
  context.meter.step();
  return found->second(value, arguments, context);
}

}  // namespace comera::data::jinja
