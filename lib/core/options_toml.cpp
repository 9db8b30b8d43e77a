#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include <algorithm>
#include <string>

#include "lib/core/error.h"
#include "lib/core/options.h"
#include "lib/core/suggest.h"

namespace comera {
namespace {

std::string scalar_text(const toml::node& node, std::string_view where) {
  if (const auto* value = node.as_string()) return value->get();
  if (const auto* value = node.as_boolean()) return value->get() ? "true" : "false";
  if (const auto* value = node.as_integer()) return fmt::format("{}", value->get());
  if (const auto* value = node.as_floating_point()) return fmt::format("{}", value->get());
  fail_input("{}: expected a string, a number, true or false", where);
}

std::vector<std::string> texts_of(const Option& option, const toml::node& node, std::string_view where) {
  const toml::array* array = node.as_array();
  if (!array) return {scalar_text(node, where)};
  if (option.type != OptionType::list) fail_input("{}: expected one value, got a list", where);
  std::vector<std::string> texts;
  for (const toml::node& item : *array) texts.push_back(scalar_text(item, where));
  return texts;
}

bool is_foreign(const OptionTable& table, const std::string& name) {
  return std::find(table.foreign_tables().begin(), table.foreign_tables().end(), name) != table.foreign_tables().end();
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string toml_value(const OptionValues& values, const Option& option) {
  switch (option.type) {
    case OptionType::flag: return values.flag(option.name) ? "true" : "false";
    case OptionType::integer:
    case OptionType::size: return values.canonical(option.name);
    case OptionType::real: {
      const std::string text = values.canonical(option.name);
      return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
    }
    case OptionType::list: {
      std::string out;
      for (const std::string& item : values.list(option.name)) out += (out.empty() ? "" : ", ") + quoted(item);
      return "[" + out + "]";
    }
    default: return quoted(values.canonical(option.name));
  }
}

std::vector<std::string> config_names(const OptionTable& table) {
  std::vector<std::string> names;
  for (const Option& option : table.options())
    if (option.in_config) names.push_back(option.name);
  return names;
}

}  // namespace

void apply_toml(OptionValues& values, std::string_view text, std::string_view file_name) {
  const OptionTable& table = values.table();
  const toml::parse_result parsed = toml::parse(text, file_name);
  if (!parsed) fail_input("[{}] {}:{}: {}", table.verb(), file_name, parsed.error().source().begin.line, parsed.error().description());
  for (const auto& [key, node] : parsed.table()) {
    std::string name(key.str());
    const std::string where = fmt::format("[{}] {}:{}: {}", table.verb(), file_name, key.source().begin.line, name);
    if (name == "verb") {
      const std::string verb = scalar_text(node, where);
      if (verb != table.verb()) fail_input("{}: the file is for `comera {}`, not for `comera {}`", where, verb, table.verb());
      continue;
    }
    if (is_foreign(table, name) && node.is_table()) continue;
    std::replace(name.begin(), name.end(), '_', '-');
    const Option* option = table.find(name);
    if (option && !option->in_config) fail_input("{}: this option belongs on the command line, not in a file", where);
    if (!option) fail_input("{}: no such option of `comera {}`{}", where, table.verb(), did_you_mean(name, config_names(table)));
    values.set(*option, texts_of(*option, node, where), OptionSource::file, where);
  }
}

std::string to_toml(const OptionValues& values) {
  std::string out = fmt::format("# comera {} --config FILE\nverb = {}\n", values.table().verb(), quoted(values.table().verb()));
  for (const Option& option : values.table().options()) {
    if (!option.in_config) continue;
    out += fmt::format("\n# {}\n", option.help);
    const bool written = values.has(option.name) || option.type == OptionType::flag;
    out += written ? fmt::format("{} = {}\n", option.name, toml_value(values, option)) : fmt::format("# {} =\n", option.name);
  }
  return out;
}

}  // namespace comera
