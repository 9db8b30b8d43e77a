// Checks and converts option values, declared in lib/core/options/options.h.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "lib/core/error.h"
#include "lib/core/join.h"
#include "lib/core/options/options.h"
#include "lib/core/options/suggest.h"

namespace comera {
namespace {

void check_number(const Option& option, double value, std::string_view text, std::string_view where) {
  if (value < option.minimum)
    fail_input("{}: {} is too small; the least is {}", where, text, format_real(option.minimum));
  if (value > option.maximum)
    fail_input("{}: {} is too large; the most is {}", where, text, format_real(option.maximum));
}

void check_choice(const Option& option, const std::string& text, std::string_view where) {
  if (std::find(option.choices.begin(), option.choices.end(), text) != option.choices.end()) return;
  fail_input("{}: '{}' is none of {}{}", where, text, join(option.choices, ", "), did_you_mean(text, option.choices));
}

void check_text(const Option& option, const std::string& text, std::string_view where) {
  switch (option.type) {
    case OptionType::flag:
      if (text != "true" && text != "false") fail_input("{}: expected true or false, got '{}'", where, text);
      return;
    case OptionType::integer:
      if (const auto value = parse_integer(text)) return check_number(option, static_cast<double>(*value), text, where);
      fail_input("{}: expected a whole number, got '{}'", where, text);
    case OptionType::real:
      if (const auto value = parse_real(text)) return check_number(option, *value, text, where);
      fail_input("{}: expected a number, got '{}'", where, text);
    case OptionType::size:
      if (parse_size(text)) return;
      fail_input("{}: expected a size such as 4096, 1.5MB or 2GiB, got '{}'", where, text);
    case OptionType::period:
      if (parse_period(text)) return;
      fail_input("{}: expected steps (500), epochs (2e) or a time (90s, 20m, 8h), got '{}'", where, text);
    case OptionType::choice: return check_choice(option, text, where);
    case OptionType::string:
    case OptionType::list:
    case OptionType::path:
      if (text.empty()) fail_input("{}: the value is empty", where);
      if (text.find('\0') != std::string::npos) fail_input("{}: the value holds a null byte", where);
  }
}

// `files`: the items name files. The name of a file that exists may hold commas.
std::vector<std::string> split_commas(const std::vector<std::string>& texts, bool files) {
  std::vector<std::string> items;
  for (const std::string& text : texts) {
    if (files && ::access(text.c_str(), F_OK) == 0) {
      items.push_back(text);
      continue;
    }
    for (std::size_t start = 0, end = 0; end != std::string::npos; start = end + 1) {
      end = text.find(',', start);
      items.push_back(text.substr(start, end - start));
    }
  }
  return items;
}

// Accepts the usual spellings of a flag in the environment and after an equals sign.
std::string flag_text(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  if (text == "1" || text == "yes" || text == "on") return "true";
  return text == "0" || text == "no" || text == "off" ? "false" : text;
}

bool well_formed(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

}  // namespace

OptionTable::OptionTable(std::string verb, std::string summary)
    : verb_(std::move(verb)), summary_(std::move(summary)) {}
OptionTable::OptionTable(const OptionTable&) = default;
OptionTable::OptionTable(OptionTable&&) noexcept = default;
OptionTable& OptionTable::operator=(const OptionTable&) = default;
OptionTable& OptionTable::operator=(OptionTable&&) noexcept = default;
OptionTable::~OptionTable() = default;

OptionTable& OptionTable::add(std::vector<Option> options) {
  for (Option& option : options) {
    COMERA_CHECK(well_formed(option.name));
    COMERA_CHECK(!option.help.empty());
    COMERA_CHECK((option.type == OptionType::choice) == !option.choices.empty());
    for (const Option& other : options_) {
      if (option.name == other.name || (option.short_name && option.short_name == other.short_name))
        throw std::logic_error(fmt::format("[bug] option --{} of `{}` is defined twice", option.name, verb_));
      COMERA_CHECK("no-" + option.name != other.name && "no-" + other.name != option.name);
    }
    options_.push_back(std::move(option));
  }
  return *this;
}

OptionTable& OptionTable::positional(Positional positional) {
  COMERA_CHECK(positionals_.empty());  // a file has only one key for it
  positionals_.push_back(std::move(positional));
  return *this;
}

OptionTable& OptionTable::example(std::string command_line) {
  examples_.push_back(std::move(command_line));
  return *this;
}

OptionTable& OptionTable::common(std::vector<std::string> names) {
  constexpr std::size_t most = 10;
  COMERA_CHECK(names.size() <= most);
  for (const std::string& name : names)
    if (!find(name))
      throw std::logic_error(fmt::format("[bug] `{}` has no option --{} to show in its help", verb_, name));
  common_ = std::move(names);
  return *this;
}

OptionTable& OptionTable::only_with(std::vector<std::string> conditions, std::vector<std::string> names) {
  for (const auto* list : {&conditions, &names})
    for (const std::string& name : *list)
      if (!find(name.substr(0, name.find('='))))
        throw std::logic_error(fmt::format("[bug] `{}` has no option --{} that others depend on", verb_, name));
  dependences_.push_back({std::move(conditions), std::move(names)});
  return *this;
}

OptionTable& OptionTable::synonyms(std::vector<std::string> words) {
  synonyms_ = std::move(words);
  return *this;
}

OptionTable& OptionTable::foreign_table(std::string name) {
  foreign_tables_.push_back(std::move(name));
  return *this;
}

const Option* OptionTable::find(std::string_view name) const {
  const auto found =
      std::find_if(options_.begin(), options_.end(), [&](const Option& option) { return option.name == name; });
  return found == options_.end() ? nullptr : &*found;
}

std::vector<std::string> OptionTable::names() const {
  std::vector<std::string> names;
  names.reserve(options_.size());
  for (const Option& option : options_) names.push_back(option.name);
  return names;
}

std::string OptionTable::positional_key() const {
  std::string key = positionals_.empty() ? "" : positionals_[0].name;
  std::transform(key.begin(), key.end(), key.begin(), [](unsigned char c) { return std::tolower(c); });
  return key;
}

OptionValues::OptionValues(const OptionTable& table) : table_(&table) {
  for (const Option& option : table.options())
    if (!option.default_text.empty())
      set(option, {option.default_text}, OptionSource::fallback, "[bug] default of --" + option.name);
}

const OptionValues::Value& OptionValues::value_of(std::string_view name, OptionType type) const {
  static const Value none;
  const Option* option = table_->find(name);
  if (!option || option->type != type)
    throw std::logic_error(fmt::format("[bug] `{}` has no option --{} of that type", table_->verb(), name));
  const auto found = values_.find(name);
  if (found != values_.end()) return found->second;
  if (type == OptionType::list || type == OptionType::flag) return none;
  throw std::logic_error(fmt::format("[bug] --{} was read though it has no value", name));
}

bool OptionValues::has(std::string_view name) const { return values_.find(name) != values_.end(); }
bool OptionValues::given(std::string_view name) const { return source(name) != OptionSource::fallback; }

OptionSource OptionValues::source(std::string_view name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? OptionSource::fallback : found->second.source;
}

bool OptionValues::flag(std::string_view name) const {
  const Value& value = value_of(name, OptionType::flag);
  return !value.texts.empty() && value.texts[0] == "true";
}

std::int64_t OptionValues::integer(std::string_view name) const {
  return *parse_integer(value_of(name, OptionType::integer).texts[0]);
}
double OptionValues::real(std::string_view name) const {
  return *parse_real(value_of(name, OptionType::real).texts[0]);
}
std::uint64_t OptionValues::size(std::string_view name) const {
  return *parse_size(value_of(name, OptionType::size).texts[0]);
}
Period OptionValues::period(std::string_view name) const {
  return *parse_period(value_of(name, OptionType::period).texts[0]);
}
const std::vector<std::string>& OptionValues::list(std::string_view name) const {
  return value_of(name, OptionType::list).texts;
}

const std::string& OptionValues::text(std::string_view name) const {
  const Option* option = table_->find(name);
  const bool textual = option && (option->type == OptionType::choice || option->type == OptionType::path);
  return value_of(name, textual ? option->type : OptionType::string).texts[0];
}

void OptionValues::set(const Option& option, std::vector<std::string> texts, OptionSource source,
                       std::string_view where) {
  if (option.type == OptionType::list) texts = split_commas(texts, option.files == FileUse::read);
  if (option.type == OptionType::flag) texts = {texts.empty() ? "true" : flag_text(texts[0])};
  for (const std::string& text : texts) check_text(option, text, where);
  const auto found = values_.find(option.name);
  if (found == values_.end() || found->second.source <= source)
    values_.insert_or_assign(option.name, Value{std::move(texts), source});
}

void OptionValues::set(std::string_view name, std::string text, OptionSource source) {
  const Option* option = table_->find(name);
  if (!option) throw std::logic_error(fmt::format("[bug] `{}` has no option --{}", table_->verb(), name));
  set(*option, {std::move(text)}, source, fmt::format("[{}] --{}", table_->verb(), name));
}

void OptionValues::replace(std::string_view name, std::string text, OptionSource source) {
  if (const auto found = values_.find(name); found != values_.end()) values_.erase(found);
  set(name, std::move(text), source);
}

std::string OptionValues::canonical(std::string_view name) const {
  const Option* option = table_->find(name);
  const auto found = values_.find(name);
  if (!option || found == values_.end()) return option && option->type == OptionType::flag ? "false" : "";
  switch (option->type) {
    case OptionType::integer: return fmt::format("{}", integer(name));
    case OptionType::real: return format_real(real(name));
    case OptionType::size: return fmt::format("{}", size(name));
    case OptionType::period: return to_string(period(name));
    default: return join(found->second.texts, ",");
  }
}

namespace {

std::string relevant(const OptionValues& values, const Option& option) {
  if (!option.relevant_words) return values.canonical(option.name);
  return join(option.relevant_words(values.list(option.name)), ",");
}

}  // namespace

std::vector<std::string> changed_options(const OptionValues& before, const OptionValues& now) {
  std::vector<std::string> changed;
  for (const Option& option : now.table().options())
    if (option.result_relevant && relevant(before, option) != relevant(now, option)) changed.push_back(option.name);
  return changed;
}

}  // namespace comera
