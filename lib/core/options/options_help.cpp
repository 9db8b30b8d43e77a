// Texts of --help and --help-all, and the spelling of options in all generated texts.
#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "lib/core/error.h"
#include "lib/core/join.h"
#include "lib/core/options/option_pages.h"
#include "lib/core/terminal/terminal.h"

namespace comera {
namespace {

constexpr int least_columns = 40;
constexpr int narrow = 60;  // on a terminal with fewer columns, sentences begin below their option
constexpr int gap = 2;

// Column where the help sentence of an option begins.
int text_column_for(int columns) {
  constexpr int widest = 30, narrowest = 8;
  return columns < narrow ? narrowest : std::min(widest, columns * 2 / 5);
}

std::string metavar_of(const Option& option) {
  if (!option.metavar.empty()) return option.metavar;
  switch (option.type) {
    case OptionType::flag: return "";
    case OptionType::integer: return "N";
    case OptionType::real: return "X";
    case OptionType::string: return "TEXT";
    case OptionType::list: return "A,B,...";
    case OptionType::choice: return join(option.choices, "|");
    case OptionType::size: return "SIZE";
    case OptionType::period: return "STEPS|TIME";
    case OptionType::path: return "PATH";
  }
  return "";
}

// Breaks a list of choices behind a bar, so that it fits the terminal.
std::string broken_at_bars(std::string left, int columns) {
  constexpr std::string_view next_line = "\n          ";
  for (std::size_t begin = 0; left.size() - begin > static_cast<std::size_t>(columns);) {
    const std::size_t bar = left.rfind('|', begin + static_cast<std::size_t>(columns) - 1);
    if (bar == std::string::npos || bar < begin + next_line.size()) break;
    left.insert(bar + 1, next_line);
    begin = bar + 2;
  }
  return left;
}

// Puts `left` into its column and the sentence beside it, or on the next line if `left` is too wide.
std::string entry(const std::string& words, const std::string& text, int columns) {
  const std::string left = broken_at_bars(words, columns);
  const int text_column = text_column_for(columns);
  const int width = static_cast<int>(left.size());
  const bool beside = width + gap <= text_column;
  const std::string space(static_cast<std::size_t>(beside ? text_column - width : text_column), ' ');
  return left + (beside ? "" : "\n") + space + wrap(text, columns, text_column, text_column) + "\n";
}

std::string option_entry(const Option& option, int columns) {
  const std::string value = default_of(option);
  const std::string left = option.short_name ? fmt::format("  -{}, {}", option.short_name, spelling_of(option))
                                             : fmt::format("      {}", spelling_of(option));
  return entry(left, option.help + (value.empty() ? "" : " (default: " + value + ")"), columns);
}

// Splits an example into pieces that stay on one line. A quoted part is one piece, and so is an option with its value.
std::vector<std::string> pieces_of(const std::string& command) {
  std::vector<std::string> pieces;
  for (std::size_t at = 0; at < command.size();) {
    std::size_t end = at;
    for (bool quoted = false; end < command.size() && (quoted || command[end] != ' '); ++end)
      if (command[end] == '\'') quoted = !quoted;
    const std::string word = command.substr(at, end - at);
    const bool value = !pieces.empty() && pieces.back().starts_with('-') &&
                       pieces.back().find(' ') == std::string::npos && !word.starts_with('-');
    if (value)
      pieces.back().append(" ").append(word);
    else
      pieces.push_back(word);
    at = end + 1;
  }
  return pieces;
}

std::string sentence(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text + ".";
}

std::string opening(const OptionTable& table, HelpDepth depth, int columns) {
  std::string out =
      wrap("usage: " + usage_of(table), columns, 14) + "\n\n" + wrap(sentence(table.summary()), columns) + "\n";
  if (!table.positionals().empty()) out += "\n";
  for (const Positional& positional : table.positionals())
    out += entry("  " + positional.name, positional.help, columns);
  const std::size_t shown =
      depth == HelpDepth::all ? table.examples().size() : std::min<std::size_t>(table.examples().size(), 1);
  if (shown > 0) out += shown == 1 ? "\nExample:\n" : "\nExamples:\n";
  for (const std::string& example : table.examples().first(shown)) out += command_lines(example, columns);
  return out;
}

bool every_verb_has(const Option& option) {
  static const std::vector<Option> everywhere = common_options();
  return std::any_of(everywhere.begin(), everywhere.end(), [&](const Option& one) { return one.name == option.name; });
}

std::string common_help(const OptionTable& table, int columns) {
  std::string out = "\nOptions:\n";
  if (!table.common().empty()) out = "\nCommon options:\n";
  for (const std::string& name : table.common()) out += option_entry(*table.find(name), columns);
  for (const Option& option : table.options())
    if (table.common().empty() && !every_verb_has(option)) out += option_entry(option, columns);
  return out + "\n" +
         wrap(fmt::format("All {} options: comera {} --help-all", table.options().size(), table.verb()), columns) +
         "\n";
}

std::string all_help(const OptionTable& table, int columns) {
  std::string out;
  for (const std::string& group : groups_of(table)) {
    out += "\n" + group + ":\n";
    for (const Option& option : table.options())
      if (option.group == group) out += option_entry(option, columns);
  }
  return out;
}

}  // namespace

std::string command_lines(const std::string& command, int columns) {
  constexpr std::string_view start = "  ", blank = " ";
  constexpr std::size_t backslash = 2;
  const std::size_t next_indent = columns < narrow ? 4 : 6;
  const std::string next_line = " \\\n" + std::string(next_indent, ' ');
  std::string out;
  std::size_t used = 1;  // length of `start` minus the blank that precedes every other piece
  for (const std::string& piece : pieces_of(command)) {
    const bool fits = used + 1 + piece.size() + backslash <= static_cast<std::size_t>(columns);
    out += out.empty() ? start : fits ? blank : std::string_view(next_line);
    used = (fits ? used + 1 : next_indent) + piece.size();
    out += piece;
  }
  return out + "\n";
}

bool is_negatable(const Option& option) {
  return option.type == OptionType::flag && (option.default_text == "true" || !option.default_words.empty());
}

std::string spelling_of(const Option& option) {
  std::string value = metavar_of(option);
  if (!value.empty()) value = option.without_value.empty() ? " " + value : " [" + value + "]";
  return fmt::format("--{}{}{}", is_negatable(option) ? "[no-]" : "", option.name, value);
}

std::string default_of(const Option& option) {
  if (!option.default_words.empty()) return option.default_words;
  if (const auto number = parse_real(option.default_text); number && option.type == OptionType::real)
    return format_real(*number);
  if (option.type != OptionType::flag) return option.default_text;
  return option.default_text == "true" ? "on" : "";
}

std::vector<std::string> groups_of(const OptionTable& table) {
  std::vector<std::string> groups;
  for (const Option& option : table.options())
    if (std::find(groups.begin(), groups.end(), option.group) == groups.end()) groups.push_back(option.group);
  const auto general = std::find(groups.begin(), groups.end(), "General");
  if (general != groups.end()) std::rotate(general, general + 1, groups.end());
  return groups;
}

std::string usage_of(const OptionTable& table) {
  std::string usage = "comera " + table.verb();
  for (const Positional& positional : table.positionals()) {
    const std::string word = positional.name + (positional.maximum < 0 || positional.maximum > 1 ? "..." : "");
    usage += positional.minimum > 0 ? " " + word : " [" + word + "]";
  }
  return usage + " [options]";
}

std::string help_text(const OptionTable& table, HelpDepth depth, int columns) {
  columns = std::max(columns, least_columns);
  return opening(table, depth, columns) +
         (depth == HelpDepth::all ? all_help(table, columns) : common_help(table, columns));
}

}  // namespace comera
