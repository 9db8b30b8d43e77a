// Shell completion scripts for verbs, options, and option values that are fixed in advance.
#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "lib/core/error.h"
#include "lib/core/join.h"
#include "lib/core/options/option_pages.h"

namespace comera {
namespace {

using Words = std::vector<std::string>;

void add_once(Words& words, std::string word) {
  if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(std::move(word));
}

std::string spaced(const Words& words) { return join(words, " "); }

std::string first_word(const OptionTable& table) { return table.verb().substr(0, table.verb().find(' ')); }
std::string second_word(const OptionTable& table) {
  const std::size_t space = table.verb().find(' ');
  return space == std::string::npos ? "" : table.verb().substr(space + 1);
}

Words first_words(std::span<const OptionTable> tables) {
  Words words;
  for (const OptionTable& table : tables) add_once(words, first_word(table));
  return words;
}

// Maps each first word to the second words that may follow it.
std::vector<std::pair<std::string, Words>> groups_of_verbs(std::span<const OptionTable> tables) {
  std::vector<std::pair<std::string, Words>> groups;
  for (const OptionTable& table : tables) {
    if (second_word(table).empty()) continue;
    if (groups.empty() || groups.back().first != first_word(table)) groups.push_back({first_word(table), {}});
    groups.back().second.push_back(second_word(table));
  }
  return groups;
}

// Words that may follow a verb.
Words words_of(const OptionTable& table) {
  Words words;
  for (const Positional& positional : table.positionals())
    words.insert(words.end(), positional.suggested.begin(), positional.suggested.end());
  for (const Option& option : table.options()) {
    words.push_back("--" + option.name);
    if (is_negatable(option)) words.push_back("--no-" + option.name);
  }
  return words;
}

const Words& values_of(const Option& option) { return option.choices.empty() ? option.suggested : option.choices; }

bool names_a_file(const Option& option) {
  return option.type == OptionType::path || option.type == OptionType::list || !option.without_value.empty();
}

// Lines of a bash case: the values of an option, or no words if they are not known in advance. The shell itself
// completes files.
std::string bash_values(const OptionTable& table) {
  std::string out;
  for (const Option& option : table.options()) {
    if (option.type == OptionType::flag) continue;
    std::string pattern = fmt::format("'{}:--{}'", table.verb(), option.name);
    if (option.short_name) pattern += fmt::format("|'{}:-{}'", table.verb(), option.short_name);
    const char* else_files = names_a_file(option) ? "words=''" : "words=''; compopt +o default 2>/dev/null";
    out += values_of(option).empty() ? fmt::format("      {}) {} ;;\n", pattern, else_files)
                                     : fmt::format("      {}) words='{}' ;;\n", pattern, spaced(values_of(option)));
  }
  return out;
}

std::string bash_completion(std::span<const OptionTable> tables) {
  std::string out =
      "_comera() {\n  local word=\"${COMP_WORDS[COMP_CWORD]}\" before=\"${COMP_WORDS[COMP_CWORD-1]}\" "
      "verb=\"${COMP_WORDS[1]}\" words=''\n"
      "  COMPREPLY=()\n"
      // bash splits --name=value into three words.
      "  if [ \"$word\" = '=' ]; then\n    word=''\n  elif [ \"$before\" = '=' ]; then\n    "
      "before=\"${COMP_WORDS[COMP_CWORD-2]}\"\n  fi\n";
  out += fmt::format("  if [ \"$COMP_CWORD\" -eq 1 ]; then\n    words='{} --help --version'\n",
                     spaced(first_words(tables)));
  for (const auto& [first, seconds] : groups_of_verbs(tables))
    out += fmt::format("  elif [ \"$verb\" = '{}' ] && [ \"$COMP_CWORD\" -eq 2 ]; then\n    words='{}'\n", first,
                       spaced(seconds));
  out += "  else\n";
  for (const auto& [first, seconds] : groups_of_verbs(tables))
    out += fmt::format("    [ \"$verb\" = '{}' ] && verb=\"$verb ${{COMP_WORDS[2]}}\"\n", first);
  out += "    case \"$verb:$before\" in\n";
  for (const OptionTable& table : tables) out += bash_values(table);
  out += "      *)\n        case \"$verb\" in\n";
  for (const OptionTable& table : tables)
    out += fmt::format("          '{}') words='{}' ;;\n", table.verb(), spaced(words_of(table)));
  out += "        esac ;;\n    esac\n  fi\n";
  // The script also runs in zsh, which has no mapfile like bash's.
  return out +
         "  # shellcheck disable=SC2207\n  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n}\n"
         "complete -o default -F _comera comera\n";
}

std::string fish_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' || c == '\\' ? std::string{'\\', c} : std::string{c};
  return out + "'";
}

// The condition under which fish offers the options of a verb.
std::string fish_condition(const OptionTable& table) {
  const std::string first = "__fish_seen_subcommand_from " + first_word(table);
  return fish_quoted(second_word(table).empty() ? first
                                                : first + "; and __fish_seen_subcommand_from " + second_word(table));
}

std::string fish_option(const OptionTable& table, const Option& option) {
  const std::string when = fish_condition(table);
  const std::string letter = option.short_name ? fmt::format(" -s {}", option.short_name) : "";
  std::string value =
      values_of(option).empty() ? " -r" : fmt::format(" -x -a {}", fish_quoted(spaced(values_of(option))));
  if (option.type == OptionType::flag || !option.without_value.empty()) value = "";
  std::string out = fmt::format("complete -c comera -n {} -l {}{}{} -d {}\n", when, option.name, letter, value,
                                fish_quoted(option.help));
  if (is_negatable(option))
    out +=
        fmt::format("complete -c comera -n {} -l no-{} -d {}\n", when, option.name, fish_quoted("not: " + option.help));
  return out;
}

std::string fish_completion(std::span<const OptionTable> tables) {
  std::string out =
      fmt::format("complete -c comera -n __fish_use_subcommand -x -a {}\n", fish_quoted(spaced(first_words(tables))));
  for (const auto& [first, seconds] : groups_of_verbs(tables))
    out += fmt::format(
        "complete -c comera -n '__fish_seen_subcommand_from {}; and not __fish_seen_subcommand_from {}' -x -a {}\n",
        first, spaced(seconds), fish_quoted(spaced(seconds)));
  for (const OptionTable& table : tables) {
    for (const Positional& positional : table.positionals())
      if (!positional.suggested.empty())
        out += fmt::format("complete -c comera -n {} -x -a {}\n", fish_condition(table),
                           fish_quoted(spaced(positional.suggested)));
    for (const Option& option : table.options()) out += fish_option(table, option);
  }
  return out;
}

}  // namespace

std::string completion_script(std::string_view shell, std::span<const OptionTable> tables) {
  if (shell == "bash") return bash_completion(tables);
  if (shell == "fish") return fish_completion(tables);
  if (shell == "zsh") return "#compdef comera\nautoload -U +X bashcompinit && bashcompinit\n" + bash_completion(tables);
  fail_input("[completion] '{}' is none of bash, zsh, fish", shell);
}

}  // namespace comera
