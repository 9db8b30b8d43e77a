#include <fmt/ranges.h>

#include <algorithm>
#include <string>

#include "lib/core/error.h"
#include "lib/core/options.h"

namespace comera {
namespace {

constexpr std::size_t help_column = 34;

std::string metavar_of(const Option& option) {
  if (!option.metavar.empty()) return option.metavar;
  switch (option.type) {
    case OptionType::flag: return "";
    case OptionType::integer: return "N";
    case OptionType::real: return "X";
    case OptionType::string: return "TEXT";
    case OptionType::list: return "A,B,...";
    case OptionType::choice: return fmt::format("{}", fmt::join(option.choices, "|"));
    case OptionType::size: return "SIZE";
    case OptionType::period: return "STEPS|TIME";
    case OptionType::path: return "PATH";
  }
  return "";
}

std::string spelling(const Option& option) {
  std::string value = metavar_of(option);
  if (!value.empty()) value = option.without_value.empty() ? " " + value : " [" + value + "]";
  const bool on = option.type == OptionType::flag && option.default_text == "true";
  return fmt::format("--{}{}{}", on ? "no-" : "", option.name, value);
}

std::string default_of(const Option& option) {
  if (!option.default_words.empty()) return option.default_words;
  if (option.type != OptionType::flag) return option.default_text;
  return option.default_text == "true" ? "on" : "";  // spelled --no-NAME
}

std::vector<std::string> groups_of(const OptionTable& table) {
  std::vector<std::string> groups;
  for (const Option& option : table.options())
    if (std::find(groups.begin(), groups.end(), option.group) == groups.end()) groups.push_back(option.group);
  // What every verb has comes last.
  const auto general = std::find(groups.begin(), groups.end(), "General");
  if (general != groups.end()) std::rotate(general, general + 1, groups.end());
  return groups;
}

std::string help_line(const Option& option) {
  std::string line = option.short_name ? fmt::format("  -{}, {}", option.short_name, spelling(option)) : fmt::format("      {}", spelling(option));
  line = line.size() + 2 > help_column ? line + "\n" + std::string(help_column, ' ') : line + std::string(help_column - line.size(), ' ');
  const std::string value = default_of(option);
  return line + option.help + (value.empty() ? "" : " (default: " + value + ")") + "\n";
}

std::string usage_of(const OptionTable& table) {
  std::string usage = "comera " + table.verb();
  for (const Positional& positional : table.positionals()) {
    const std::string word = positional.name + (positional.maximum < 0 || positional.maximum > 1 ? "..." : "");
    usage += positional.minimum > 0 ? " " + word : " [" + word + "]";
  }
  return usage + " [options]";
}

// Tables of one first word together: "tokenizer train" and "tokenizer encode".
std::vector<std::string> first_words(std::span<const OptionTable> tables) {
  std::vector<std::string> words;
  for (const OptionTable& table : tables) {
    const std::string word = table.verb().substr(0, table.verb().find(' '));
    if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
  }
  return words;
}

// What may follow the verb `word`: second words and options.
std::vector<std::string> words_after(std::string_view word, std::span<const OptionTable> tables) {
  std::vector<std::string> words;
  const auto add = [&](std::string text) {
    if (std::find(words.begin(), words.end(), text) == words.end()) words.push_back(std::move(text));
  };
  for (const OptionTable& table : tables) {
    const std::size_t space = table.verb().find(' ');
    if (table.verb().substr(0, space) != word) continue;
    if (space != std::string::npos) add(table.verb().substr(space + 1));
    for (const Option& option : table.options()) add("--" + option.name);
  }
  return words;
}

std::string bash_completion(std::span<const OptionTable> tables) {
  std::string out = "_comera() {\n  local word=\"${COMP_WORDS[COMP_CWORD]}\" words=\"\"\n  COMPREPLY=()\n";
  out += fmt::format("  if [ \"$COMP_CWORD\" -eq 1 ]; then\n    words=\"{}\"\n  else\n    case \"${{COMP_WORDS[1]}}\" in\n",
                     fmt::join(first_words(tables), " "));
  for (const std::string& word : first_words(tables))
    out += fmt::format("      {}) words=\"{}\" ;;\n", word, fmt::join(words_after(word, tables), " "));
  out += "    esac\n    case \"${COMP_WORDS[1]}:${COMP_WORDS[COMP_CWORD-1]}\" in\n";
  for (const OptionTable& table : tables)
    for (const Option& option : table.options())
      if (!option.choices.empty())
        out += fmt::format("      {}:--{}) words=\"{}\" ;;\n", table.verb().substr(0, table.verb().find(' ')), option.name,
                           fmt::join(option.choices, " "));
  out += "    esac\n  fi\n  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n}\ncomplete -o default -F _comera comera\n";
  return out;
}

std::string fish_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' || c == '\\' ? std::string{'\\', c} : std::string{c};
  return out + "'";
}

std::string fish_completion(std::span<const OptionTable> tables) {
  std::string out =
      fmt::format("complete -c comera -n __fish_use_subcommand -a {}\n", fish_quoted(fmt::format("{}", fmt::join(first_words(tables), " "))));
  for (const OptionTable& table : tables) {
    const std::size_t space = table.verb().find(' ');
    const std::string when = "-n '__fish_seen_subcommand_from " + table.verb().substr(0, space) + "'";
    if (space != std::string::npos) out += fmt::format("complete -c comera {} -a {}\n", when, table.verb().substr(space + 1));
    for (const Option& option : table.options()) {
      const std::string letter = option.short_name ? fmt::format(" -s {}", option.short_name) : "";
      const std::string value = option.type == OptionType::flag ? ""
                                : option.choices.empty()        ? " -r"
                                                                : fmt::format(" -x -a '{}'", fmt::join(option.choices, " "));
      out += fmt::format("complete -c comera {} -l {}{}{} -d {}\n", when, option.name, letter, value, fish_quoted(option.help));
    }
  }
  return out;
}

}  // namespace

std::string help_text(const OptionTable& table) {
  std::string out = fmt::format("comera {}: {}\n\nusage: {}\n", table.verb(), table.summary(), usage_of(table));
  for (const Positional& positional : table.positionals()) out += fmt::format("  {:<{}}{}\n", positional.name, help_column - 2, positional.help);
  for (const std::string& group : groups_of(table)) {
    out += "\n" + group + ":\n";
    for (const Option& option : table.options())
      if (option.group == group) out += help_line(option);
  }
  if (!table.examples().empty()) out += "\nExamples:\n";
  for (const std::string& example : table.examples()) out += "  " + example + "\n";
  return out;
}

std::string markdown(const OptionTable& table) {
  const auto escaped = [](std::string text) {
    for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, 1, '\\');
    return text;
  };
  std::string out = fmt::format("## comera {}\n\n{}\n\n    {}\n", table.verb(), table.summary(), usage_of(table));
  for (const std::string& group : groups_of(table)) {
    out += fmt::format("\n### {}\n\n| option | default | meaning |\n| --- | --- | --- |\n", group);
    for (const Option& option : table.options())
      if (option.group == group)
        out += fmt::format("| `{}` | {} | {} |\n", escaped(spelling(option)), escaped(default_of(option)), escaped(option.help));
  }
  return out;
}

std::string completion_script(std::string_view shell, std::span<const OptionTable> tables) {
  if (shell == "bash") return bash_completion(tables);
  if (shell == "fish") return fish_completion(tables);
  if (shell == "zsh") return "#compdef comera\nautoload -U +X bashcompinit && bashcompinit\n" + bash_completion(tables);
  fail_input("[completion] '{}' is none of bash, zsh, fish", shell);
}

}  // namespace comera
