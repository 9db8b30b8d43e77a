#include "lib/core/options/options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/options/option_pages.h"
#include "lib/core/options/suggest.h"
#include "lib/core/terminal/terminal.h"

namespace comera {
namespace {

constexpr std::uint64_t largest_config = std::uint64_t{16} << 20;

void dashes_for_underscores(std::string& argument) {
  if (!argument.starts_with("--")) return;
  std::replace(argument.begin(),
               argument.begin() + static_cast<std::ptrdiff_t>(std::min(argument.find('='), argument.size())), '_', '-');
}

std::string strip_dashes(std::string_view argument) {
  argument = argument.substr(std::min(argument.find_first_not_of('-'), argument.size()));
  return std::string(argument.substr(0, argument.find('=')));
}

std::string variable_name(std::string name) {
  for (char& c : name) c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return "COMERA_" + name;
}

// COMERA_DATA is the folder of data sets for recipes and tests, so it cannot set --data.
bool reads_environment(const Option& option) { return option.in_config && option.name != "data"; }

// CLI11 accepts any next argument as the value of an option, even another option.
void refuse_options_as_values(const OptionTable& table, const Option& option, const std::vector<std::string>& texts) {
  for (const std::string& text : texts)
    if (text.starts_with("--") && table.find(strip_dashes(text)))
      fail_input("[{}] --{} needs a value, but the option {} follows it", table.verb(), option.name, text);
}

CLI::Option* declare(CLI::App& app, const Option& option) {
  std::string names = "--" + option.name;
  if (option.short_name) names = fmt::format("-{},{}", option.short_name, names);
  if (option.type == OptionType::flag) return app.add_flag(names + ",!--no-" + option.name);
  CLI::Option* declared = app.add_option(names)->type_name("VALUE");
  if (option.type == OptionType::list)
    return declared->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  declared->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  return option.without_value.empty() ? declared : declared->expected(0, 1);
}

// Names of options and their synonyms in other programs.
std::vector<KnownWord> known_words(const OptionTable& table) {
  std::vector<KnownWord> words;
  for (const Option& option : table.options()) words.push_back({option.name, option.name});
  for (const Option& option : table.options())
    for (const std::string& synonym : option.synonyms) words.push_back({synonym, option.name});
  return words;
}

// CLI11 returns the arguments that it does not recognise: unknown options and positional words.
std::vector<std::string> words_of(const OptionTable& table, const std::vector<std::string>& rest) {
  std::vector<std::string> words;
  bool only_words = false;
  for (const std::string& word : rest) {
    if (!only_words && word == "--") {
      only_words = true;
    } else if (!only_words && word.size() > 1 && word[0] == '-') {
      fail_input("[{}] unknown option {}{}; `comera {} --help-all` lists all", table.verb(),
                 word.substr(0, word.find('=')), did_you_mean(strip_dashes(word), known_words(table), "--"),
                 table.verb());
    } else {
      words.push_back(word);
    }
  }
  return words;
}

void take_words(const OptionTable& table, std::vector<std::string> words, OptionValues& values) {
  // A maximum of -1 becomes any number.
  const std::size_t most = table.positionals().empty() ? 0 : static_cast<std::size_t>(table.positionals()[0].maximum);
  if (words.size() > most)
    fail_input(
        "[{}] unexpected argument '{}'; if the shell expanded a pattern, put quotes around it; `comera {} --help` "
        "shows the usage",
        table.verb(), words[most], table.verb());
  if (words.empty()) return;
  for (const std::string& word : words)
    if (word.empty()) fail_input("[{}] {}: the value is empty", table.verb(), table.positionals()[0].name);
  if (const Option* option = table.find(table.positional_key())) {
    const std::string& place = table.positionals()[0].name;
    const bool named = values.source(option->name) == OptionSource::flag;
    const std::string other = values.canonical(option->name);
    values.set(*option, words, OptionSource::flag, fmt::format("[{}] {}", table.verb(), place));
    if (const std::string word = values.canonical(option->name); named && word != other)
      fail_input("[{0}] {1} and --{3} mean the same, but {1} is {2} and --{3} is {4}; leave one out", table.verb(),
                 place, word, option->name, other);
  }
  values.set_positionals(std::move(words));
}

// Called after the command line and the file are read.
void require_words(const OptionTable& table, const OptionValues& values) {
  if (table.positionals().empty()) return;
  const Positional& positional = table.positionals()[0];
  const int count = static_cast<int>(values.positionals().size());
  if (count < positional.minimum)
    fail_input("[{}] {} is missing: {}; `comera {} --help` shows the usage", table.verb(), positional.name,
               positional.help, table.verb());
  if (positional.maximum >= 0 && count > positional.maximum)
    fail_input("[{}] {}: {} came, {} can be taken", table.verb(), positional.name, count, positional.maximum);
}

// A condition of OptionTable::only_with.
bool holds(const OptionValues& values, const std::string& condition) {
  const std::size_t equal = condition.find('=');
  const std::string name = condition.substr(0, equal);
  if (equal == std::string::npos) {
    const bool flag = values.table().find(name)->type == OptionType::flag;
    return flag ? values.flag(name) : values.has(name) && !values.canonical(name).empty();
  }
  const std::string value = values.canonical(name);
  for (std::size_t begin = equal + 1; begin <= condition.size();) {
    const std::size_t end = std::min(condition.find('|', begin), condition.size());
    if (condition.compare(begin, end - begin, value) == 0) return true;
    begin = end + 1;
  }
  return false;
}

void parse_arguments(const OptionTable& table, std::vector<std::string> arguments, OptionValues& values) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  std::vector<std::pair<const Option*, CLI::Option*>> declared;
  for (const Option& option : table.options()) declared.emplace_back(&option, declare(app, option));
  const auto stop = std::find(arguments.begin(), arguments.end(), "--");
  std::for_each(arguments.begin(), stop, dashes_for_underscores);
  std::reverse(arguments.begin(), arguments.end());  // CLI11 expects the arguments in reverse order
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string_view text = error.what();  // "--name: 1 required VALUE missing"
    fail_input("[{}] {} needs a value; `comera {} --help` shows the usage", table.verb(),
               text.substr(0, text.find(':')), table.verb());
  } catch (const CLI::ParseError& error) {
    fail_input("[{}] {}; `comera {} --help` shows the usage", table.verb(), error.what(), table.verb());
  }
  for (const auto& [option, parsed] : declared) {
    if (parsed->count() == 0) continue;
    std::vector<std::string> texts = parsed->results();
    if (option->type != OptionType::list && texts.size() > 1) texts = {texts.back()};
    const bool bare =
        texts.empty() || (texts.size() == 1 && texts[0].empty()) || texts == std::vector<std::string>{"{}"};
    if (bare && !option->without_value.empty()) texts = {option->without_value};
    refuse_options_as_values(table, *option, texts);
    values.set(*option, std::move(texts), OptionSource::flag, fmt::format("[{}] --{}", table.verb(), option->name));
  }
  take_words(table, words_of(table, app.remaining()), values);
}

void read_environment(const OptionTable& table, const Environment& environment, OptionValues& values) {
  for (const Option& option : table.options()) {
    if (!reads_environment(option)) continue;
    const std::string variable = variable_name(option.name);
    const char* text = environment(variable);
    if (text && *text)
      values.set(option, {text}, OptionSource::environment,
                 fmt::format("[{}] environment variable {}", table.verb(), variable));
  }
}

}  // namespace

const char* process_environment(const std::string& name) { return std::getenv(name.c_str()); }

std::vector<Option> common_options() {
  return {
      {.name = "config",
       .type = OptionType::path,
       .help = "read options from a TOML file; the command line takes precedence",
       .metavar = "FILE",
       .in_config = false,
       .in_dump = false,
       .synonyms = {"configuration", "config-file", "recipe"}},
      {.name = "dump-config",
       .type = OptionType::flag,
       .help = "print this call as TOML for --config, and stop",
       .in_config = false,
       .in_dump = false},
      {.name = "quiet",
       .type = OptionType::flag,
       .help = "print warnings and errors only",
       .short_name = 'q',
       .synonyms = {"silent"}},
      {.name = "verbose", .type = OptionType::flag, .help = "print detailed messages", .short_name = 'v'},
      {.name = "log-file",
       .type = OptionType::path,
       .help = "also append messages to this file",
       .metavar = "FILE",
       .files = FileUse::written},
      {.name = "help",
       .type = OptionType::flag,
       .help = "show the common options",
       .short_name = 'h',
       .in_config = false,
       .in_dump = false},
      {.name = "help-all", .type = OptionType::flag, .help = "show all options", .in_config = false, .in_dump = false}};
}

ParsedCommand parse_command(const OptionTable& table, std::vector<std::string> arguments,
                            const Environment& environment) {
  ParsedCommand command{OptionValues(table), std::nullopt};
  OptionValues& values = command.values;
  parse_arguments(table, std::move(arguments), values);
  for (const auto& [option, depth] : {std::pair{"help-all", HelpDepth::all}, std::pair{"help", HelpDepth::common}})
    if (table.find(option) && values.flag(option)) {
      command.print = help_text(table, depth, terminal_columns(STDOUT_FILENO));
      return command;
    }
  read_environment(table, environment, values);
  if (table.find("config") && values.has("config"))
    apply_toml(values, read_file(values.text("config"), largest_config), values.text("config"), TomlScope::call);
  if (table.find("dump-config") && values.flag("dump-config"))
    command.print = to_toml(values, TomlScope::call);
  else
    require_words(table, values);
  return command;
}

void refuse_without_effect(const OptionValues& values) {
  const OptionTable& table = values.table();
  for (const auto& [conditions, names] : table.dependences()) {
    if (std::any_of(conditions.begin(), conditions.end(),
                    [&](const std::string& condition) { return holds(values, condition); }))
      continue;
    for (const std::string& name : names) {
      if (values.source(name) != OptionSource::flag) continue;
      std::string wanted;
      for (const std::string& condition : conditions)
        wanted += fmt::format("{}--{}", wanted.empty() ? "" : " or ", condition);
      std::replace(wanted.begin(), wanted.end(), '=', ' ');
      fail_input("[{}] --{} has no effect without {}; add it, or leave out --{}", table.verb(), name, wanted, name);
    }
  }
}

void fail_unknown_verb(std::string_view verb, std::span<const OptionTable> tables) {
  std::vector<KnownWord> words;
  const auto first_word = [](const OptionTable& table) { return table.verb().substr(0, table.verb().find(' ')); };
  for (const OptionTable& table : tables) words.push_back({first_word(table), first_word(table)});
  for (const OptionTable& table : tables)
    for (const std::string& synonym : table.synonyms()) words.push_back({synonym, table.verb()});
  for (const char* word : {"resume", "continue"}) words.push_back({word, "--resume RUN"});
  fail_input("[comera] unknown verb '{}'{}; `comera --help` lists all", verb, did_you_mean(verb, words));
}

}  // namespace comera
