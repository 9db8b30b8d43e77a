#include "lib/data/template/methods.h"

#include <algorithm>
#include <unordered_set>

#include "lib/data/template/operations.h"
#include "lib/data/template/python_text.h"

namespace comera::data::jinja {
namespace {

using Names = std::unordered_set<std::string>;
using Bound = std::vector<std::optional<Value>>;

std::optional<std::string> optional_text(const std::optional<Value>& value, std::string_view what) {
  if (!value || value->is(Type::none)) return std::nullopt;
  return text_required(*value, what);
}

Value list_of(const std::vector<std::string>& texts, Meter& meter) {
  meter.step(texts.size());
  std::vector<Value> items(texts.begin(), texts.end());
  return Value::list(std::move(items));
}

// str.startswith() and endswith(): a text or several in a tuple.
bool has_end(const std::string& text, const Value& ends, bool at_start) {
  if (ends.is(Type::list) && ends.list().tuple)
    return std::any_of(ends.list().items.begin(), ends.list().items.end(),
                       [&](const Value& one) { return has_end(text, one, at_start); });
  const std::string& end = text_required(ends, "the start or end of a text");
  return at_start ? text.starts_with(end) : text.ends_with(end);
}

// Position in characters; -1 if it is not there.
std::int64_t place_of(const std::string& text, const std::string& part, bool last) {
  const std::size_t at = last ? text.rfind(part) : text.find(part);
  return at == std::string::npos ? -1 : length_of(std::string_view(text).substr(0, at));
}

Value split_text(const std::string& text, const Arguments& arguments, bool from_end, Meter& meter) {
  const Bound bound = arguments.bound({"sep", "maxsplit"});
  const auto separator = optional_text(bound[0], "the separator of split");
  if (separator && separator->empty()) fail_template("the separator of split is empty");
  const std::int64_t most = bound[1] ? whole_of(*bound[1], "the number of splits") : -1;
  return list_of(from_end ? split_from_end(text, separator, most) : split(text, separator, most), meter);
}

Value join_texts(const std::string& separator, const Value& list, Meter& meter) {
  std::string text;
  bool first = true;
  for (const Value& item : items_of(list, meter)) {
    const std::string& part = text_required(item, "an item of join");
    meter.append(text.size(), separator.size() + part.size());
    if (!std::exchange(first, false)) text += separator;
    text += part;
  }
  return text;
}

Value replace_in(const std::string& text, const Arguments& arguments, Meter& meter) {
  const Bound bound = arguments.bound({"old", "new", "count"});
  if (!bound[0] || !bound[1]) fail_template("replace needs an old and a new text");
  const std::string &old = text_required(*bound[0], "the old text"), &by = text_required(*bound[1], "the new text");
  const std::int64_t most = bound[2] ? whole_of(*bound[2], "the number of replacements") : -1;
  meter.text(text.size() + static_cast<std::size_t>(count_of(text, old)) * by.size());
  return replaced(text, old, by, most);
}

template <class Fits>
bool all_characters(const std::string& text, Fits&& fits) {
  return !text.empty() && std::all_of(text.begin(), text.end(), fits);
}

Value strip_text(const std::string& text, const std::string& name, const Arguments& arguments, Meter& meter) {
  const auto characters = optional_text(arguments.bound({"chars"})[0], "what strip drops");
  if (characters) meter.step(text.size() * (1 + characters->size() / 64));
  return stripped(text, characters, name != "rstrip", name != "lstrip");
}

Value search_text(const std::string& text, const std::string& name, const Arguments& arguments, Context& context) {
  const auto part = arguments.bound({"sub"})[0];
  if (!part) fail_template("the method {} needs a text to look for", name);
  if (name == "startswith" || name == "endswith") return has_end(text, *part, name == "startswith");
  if (name == "join") return join_texts(text, *part, context.meter);
  const std::string& wanted = text_required(*part, "what is looked for");
  if (name == "count") return count_of(text, wanted);
  if (name == "removeprefix") return text.substr(text.starts_with(wanted) ? wanted.size() : 0);
  if (name == "removesuffix") return text.substr(0, text.size() - (text.ends_with(wanted) ? wanted.size() : 0));
  const std::int64_t place = place_of(text, wanted, name == "rfind" || name == "rindex");
  if (place < 0 && name.ends_with("index")) fail_template("a text does not hold what {} looks for", name);
  return place;
}

Value change_case(const std::string& text, const std::string& name, Context& context) {
  context.meter.text(2 * text.size());
  if (name == "upper") return upper(text);
  if (name == "lower") return lower(text);
  return name == "title" ? titled(text) : capitalized(text);
}

Value call_text(const std::string& text, const std::string& name, const Arguments& arguments, Context& context) {
  Meter& meter = context.meter;
  meter.step(1 + text.size() / 64);
  if (name == "strip" || name == "lstrip" || name == "rstrip") return strip_text(text, name, arguments, meter);
  if (name == "split" || name == "rsplit") return split_text(text, arguments, name == "rsplit", meter);
  if (name == "replace") return replace_in(text, arguments, meter);
  static const Names searches = {"startswith", "endswith", "find", "rfind",        "index",
                                 "rindex",     "count",    "join", "removeprefix", "removesuffix"};
  if (searches.contains(name)) return search_text(text, name, arguments, context);
  if (name == "splitlines") {
    const auto keep = arguments.bound({"keepends"})[0];
    return list_of(split_lines(text, keep && is_true(*keep)), meter);
  }
  static const Names plain = {"upper", "lower", "title", "capitalize", "isdigit", "isspace"};
  if (!plain.contains(name)) fail_template("the method '{}' of texts is not read", name);
  arguments.bound({});
  if (name == "upper" || name == "lower" || name == "title" || name == "capitalize")
    return change_case(text, name, context);
  if (name == "isdigit") return all_characters(text, [](char c) { return c >= '0' && c <= '9'; });
  return !text.empty() && without_blanks_before(text).empty();
}

Value call_dict(const Value& dict, const std::string& name, const Arguments& arguments, Meter& meter) {
  if (name == "get") {
    const Bound bound = arguments.bound({"key", "default"});
    if (!bound[0]) fail_template("the method get needs a key");
    const Value* member = bound[0]->is(Type::text) ? dict.find(bound[0]->text(), meter) : nullptr;
    return member ? *member : bound[1].value_or(Value(nullptr));
  }
  arguments.bound({});
  std::vector<Value> items;
  meter.step(dict.dict().members.size());
  for (const auto& [key, value] : dict.dict().members) {
    if (name == "keys") items.emplace_back(key);
    if (name == "values") items.push_back(value);
    if (name == "items") items.push_back(Value::list({Value(key), value}, true));
  }
  if (name == "keys" || name == "values" || name == "items") return Value::list(std::move(items));
  fail_template("the method '{}' of dicts is not read", name);
}

Value call_list(const Value& list, const std::string& name, const Arguments& arguments, Meter& meter) {
  if (name != "index" && name != "count")
    fail_template("the method '{}' of lists is not read, because values do not change", name);
  const auto wanted = arguments.bound({"value"})[0];
  if (!wanted) fail_template("the method {} needs a value", name);
  std::int64_t count = 0;
  for (std::size_t i = 0; i < list.list().items.size(); ++i) {
    if (!equal(list.list().items[i], *wanted, meter)) continue;
    if (name == "index") return static_cast<std::int64_t>(i);
    ++count;
  }
  if (name == "index") fail_template("a list does not hold what index looks for");
  return count;
}

Value call_loop(LoopState& loop, const std::string& name, const Arguments& arguments, Meter& meter) {
  if (name == "cycle") {
    if (arguments.placed.empty()) fail_template("loop.cycle needs values");
    return arguments.placed[loop.index % arguments.placed.size()];
  }
  Value now = Value::list(arguments.placed, true);
  if (!is_plain(now)) fail_template("loop.changed compares texts, numbers, lists and dicts");
  const bool changed = !loop.compared || !equal(*loop.compared, now, meter);
  if (changed) loop.compared = std::move(now);
  return changed;
}

Value range_of(const Arguments& arguments, Meter& meter) {
  constexpr std::int64_t longest = 100000;  // of Jinja's sandbox
  if (!arguments.named.empty() || arguments.placed.empty() || arguments.placed.size() > 3)
    fail_template("range takes one to three numbers");
  std::int64_t numbers[3] = {0, 0, 1};
  const bool only_end = arguments.placed.size() == 1;
  for (std::size_t i = 0; i < arguments.placed.size(); ++i)
    numbers[only_end ? 1 : i] = whole_of(arguments.placed[i], "a bound of range");
  const auto [begin, end, step] = numbers;
  if (step == 0) fail_template("the step of range is zero");
  std::vector<Value> items;
  for (std::int64_t at = begin; step > 0 ? at < end : at > end;) {
    if (std::ssize(items) == longest) fail_template("range has more than {} numbers", longest);
    meter.step();
    items.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return Value::list(std::move(items));
}

// namespace(a=1) and dict(a=1), each also with a dict.
Value members_of(const std::string& name, const Arguments& arguments) {
  Members members;
  if (arguments.placed.size() > 1 || (!arguments.placed.empty() && !arguments.placed[0].is(Type::dict)))
    fail_template("{} takes named values, or one dict", name);
  if (!arguments.placed.empty()) members = arguments.placed[0].dict().members;
  for (const auto& [key, value] : arguments.named) {
    const auto known = std::find_if(members.begin(), members.end(), [&](const auto& one) { return one.first == key; });
    if (known != members.end())
      known->second = value;
    else
      members.emplace_back(key, value);
  }
  if (name == "dict") return Value::dict(std::move(members));
  auto body = std::make_shared<NamespaceBody>();
  for (auto& [key, value] : members) body->members[key] = std::move(value);
  return body;
}

Value time_text(const Arguments& arguments, std::time_t now) {
  const auto format = arguments.bound({"format"})[0];
  if (!format) fail_template("strftime_now needs a format");
  const std::string& wanted = text_required(*format, "the format of strftime_now");
  if (wanted.size() > 256) fail_template("the format of strftime_now has more than 256 bytes");
  std::tm time{};
  localtime_r(&now, &time);
  char text[4096];
  // A blank in front tells an empty text from one that does not fit.
  const std::size_t size = std::strftime(text, sizeof text, (" " + wanted).c_str(), &time);
  if (size == 0) fail_template("the time by strftime_now is too long");
  return std::string(text + 1, size - 1);
}

}  // namespace

bool is_method(const Value& value, const std::string& name) {
  static const Names of_texts = {
      "capitalize", "casefold",     "center",       "count",   "encode",     "endswith",    "expandtabs",
      "find",       "format",       "format_map",   "index",   "isalnum",    "isalpha",     "isascii",
      "isdecimal",  "isdigit",      "isidentifier", "islower", "isnumeric",  "isprintable", "isspace",
      "istitle",    "isupper",      "join",         "ljust",   "lower",      "lstrip",      "maketrans",
      "partition",  "removeprefix", "removesuffix", "replace", "rfind",      "rindex",      "rjust",
      "rpartition", "rsplit",       "rstrip",       "split",   "splitlines", "startswith",  "strip",
      "swapcase",   "title",        "translate",    "upper",   "zfill"};
  static const Names of_dicts = {"clear", "copy",    "fromkeys",   "get",    "items", "keys",
                                 "pop",   "popitem", "setdefault", "update", "values"};
  static const Names of_lists = {"append", "clear", "copy",   "count",   "extend", "index",
                                 "insert", "pop",   "remove", "reverse", "sort"};
  if (value.is(Type::text)) return of_texts.contains(name);
  if (value.is(Type::dict)) return of_dicts.contains(name);
  if (value.is(Type::list)) return of_lists.contains(name);
  return value.is(Type::loop) && (name == "cycle" || name == "changed");
}

Value call_method(const Value& value, const std::string& name, const Arguments& arguments, Context& context) {
  context.meter.step();
  if (value.is(Type::text)) return call_text(value.text(), name, arguments, context);
  if (value.is(Type::dict)) return call_dict(value, name, arguments, context.meter);
  if (value.is(Type::list)) return call_list(value, name, arguments, context.meter);
  return call_loop(value.loop(), name, arguments, context.meter);
}

bool is_function(const std::string& name) {
  static const Names known = {"range", "namespace", "dict", "raise_exception", "strftime_now"};
  return known.contains(name);
}

Value call_function(const std::string& name, const Arguments& arguments, Context& context) {
  if (name == "range") return range_of(arguments, context.meter);
  if (name == "strftime_now") return time_text(arguments, context.now);
  if (name != "raise_exception") return members_of(name, arguments);
  const auto message = arguments.bound({"message"})[0];
  fail_template("refuses this conversation: {}", message ? text_of(*message, context.meter) : "no reason is given");
}

}  // namespace comera::data::jinja
