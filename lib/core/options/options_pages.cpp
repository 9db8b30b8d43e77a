// Generates pages about options: Markdown for docs/options, roff for man.
#include <algorithm>
#include <string>

#include "lib/core/error.h"
#include "lib/core/options/option_pages.h"

namespace comera {
namespace {

constexpr const char* exit_codes[][2] = {
    {"0", "success"}, {"1", "failure during the run"}, {"2", "wrong usage or input"}, {"128+n", "stopped by signal n"}};

constexpr const char* sources =
    "A value comes from the command line, else from the file that --config names, else from the environment variable "
    "COMERA_NAME (--lr-cores: COMERA_LR_CORES), else it is the default. --dump-config prints a call as such a file. An "
    "option printed as --[no-]name is switched on by --name and off by --no-name; --no-name also switches off any "
    "other flag.";

std::string replaced(std::string text, std::string_view what, std::string_view with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
  return text;
}

std::string cell(const std::string& text) { return replaced(replaced(text, "|", "\\|"), "<", "&lt;"); }

// In a code span inside a table only the bar needs an escape.
std::string code_cell(const std::string& text) { return "`" + replaced(text, "|", "\\|") + "`"; }

std::string roff(const std::string& text) {
  std::string out = replaced(replaced(text, "\\", "\\e"), "-", "\\-");
  if (out.starts_with('.') || out.starts_with('\'')) out.insert(0, "\\&");
  return replaced(replaced(out, "\n.", "\n\\&."), "\n'", "\n\\&'");
}

std::string man_name(const OptionTable& table) { return "comera-" + page_name(table); }

std::string title(std::string name, std::string_view version) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return fmt::format(".TH {} 1 \"\" \"comera {}\" \"User Commands\"\n", roff(name), version);
}

std::string man_option(const Option& option) {
  const std::string letter = option.short_name ? fmt::format("-{}, ", option.short_name) : "";
  const std::string value = default_of(option);
  return fmt::format(".TP\n.B {}\n{}{}.\n", roff(letter + spelling_of(option)), roff(option.help),
                     value.empty() ? "" : roff(" (default: " + value + ")"));
}

std::string man_exit_status() {
  std::string out = ".SH EXIT STATUS\n";
  for (const auto& [code, meaning] : exit_codes) out += fmt::format(".TP\n.B {}\n{}.\n", code, meaning);
  return out;
}

}  // namespace

std::string page_name(const OptionTable& table) { return replaced(table.verb(), " ", "-"); }

std::string markdown_page(const OptionTable& table) {
  std::string out = fmt::format("# comera {}\n\n{}.\n\n    {}\n", table.verb(), table.summary(), usage_of(table));
  for (const Positional& positional : table.positionals())
    out += fmt::format("\n`{}`: {}.\n", positional.name, cell(positional.help));
  if (!table.examples().empty()) out += "\n```sh\n";
  for (const std::string& example : table.examples()) out += example + "\n";
  if (!table.examples().empty()) out += "```\n";
  for (const std::string& group : groups_of(table)) {
    out += fmt::format("\n## {}\n\n| option | default | meaning |\n| --- | --- | --- |\n", group);
    for (const Option& option : table.options())
      if (option.group == group)
        out += fmt::format("| {}{} | {} | {} |\n", option.short_name ? fmt::format("`-{}` ", option.short_name) : "",
                           code_cell(spelling_of(option)), cell(default_of(option)), cell(option.help));
  }
  return out;
}

std::string markdown_index(std::span<const OptionTable> tables) {
  std::string out = fmt::format(
      "# Options of comera\n\nThese pages are made from the program's tables by `make docs`.\n\n{}\n\n", sources);
  for (const OptionTable& table : tables)
    out += fmt::format("- [comera {}]({}.md): {}\n", table.verb(), page_name(table), table.summary());
  out += "\n| exit code | meaning |\n| --- | --- |\n";
  for (const auto& [code, meaning] : exit_codes) out += fmt::format("| {} | {} |\n", code, meaning);
  return out;
}

std::string man_page(const OptionTable& table, std::string_view version) {
  std::string out = title(man_name(table), version);
  out += fmt::format(".SH NAME\n{} \\- {}\n", roff(man_name(table)), roff(table.summary()));
  out += fmt::format(".SH SYNOPSIS\n.B {}\n", roff(usage_of(table)));
  if (!table.positionals().empty()) out += ".SH ARGUMENTS\n";
  for (const Positional& positional : table.positionals())
    out += fmt::format(".TP\n.I {}\n{}.\n", roff(positional.name), roff(positional.help));
  out += ".SH OPTIONS\n";
  for (const std::string& group : groups_of(table)) {
    out += fmt::format(".SS {}\n", roff(group));
    for (const Option& option : table.options())
      if (option.group == group) out += man_option(option);
  }
  if (!table.examples().empty()) out += ".SH EXAMPLES\n";
  for (const std::string& example : table.examples()) out += fmt::format(".PP\n.nf\n{}\n.fi\n", roff(example));
  return out + man_exit_status() + ".SH SEE ALSO\n.BR comera (1)\n";
}

std::string man_index(std::span<const OptionTable> tables, std::string_view version) {
  std::string out =
      title("comera", version) + ".SH NAME\ncomera \\- train and compress models in tensor\\-train form\n";
  out += fmt::format(".SH SYNOPSIS\n.B comera\n.I VERB\n[options]\n.SH DESCRIPTION\n{}\n.SH VERBS\n", roff(sources));
  for (const OptionTable& table : tables)
    out += fmt::format(".TP\n.BR {} (1)\n{}.\n", roff(man_name(table)), roff(table.summary()));
  out += ".SH OPTIONS\n.TP\n.B " + roff("--help") + "\nShow the verbs, or the common options of a verb.\n.TP\n.B " +
         roff("--help-all") + "\nShow all options of a verb.\n.TP\n.B " + roff("--version") +
         "\nPrint the version and the hardware.\n";
  return out + man_exit_status();
}

}  // namespace comera
