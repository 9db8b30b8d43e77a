#include "tools/program.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>

#include "lib/core/error.h"
#include "lib/core/log.h"
#include "lib/core/suggest.h"

namespace comera::tools {
namespace {

using Arguments = std::vector<std::string>;

std::vector<OptionTable> all_tables() {
  std::vector<OptionTable> tables;
  for (const Verb& verb : verbs()) tables.push_back(verb.table());
  return tables;
}

std::string program_help() {
  std::string out = "comera: train and compress models in tensor-train form\n\nusage: comera VERB [options]\n\nVerbs:\n";
  for (const Verb& verb : verbs()) out += fmt::format("  {:<20}{}\n", verb.name, verb.table().summary());
  return out +
         "\nGeneral:\n"
         "  --version           what this program is and runs on; with --device cuda the cards\n"
         "  --help              this help; `comera VERB --help` lists the options of a verb\n"
         "\nExit codes: 0 fine, 1 failed while running, 2 wrong usage or input, 128+n stopped by signal n\n";
}

// Help for all verbs that share the first word; "" where none does.
std::string group_help(const std::string& word) {
  std::string out;
  for (const Verb& verb : verbs())
    if (verb.name == word || verb.name.starts_with(word + " ")) out.append(out.empty() ? "" : "\n").append(help_text(verb.table()));
  return out;
}

[[noreturn]] void fail_second_word(const std::string& first, const Arguments& arguments) {
  std::vector<std::string> words;
  for (const Verb& verb : verbs())
    if (verb.name.starts_with(first + " ")) words.emplace_back(verb.name.substr(first.size() + 1));
  std::string list = words.front();
  for (std::size_t i = 1; i < words.size(); ++i) list.append(i + 1 == words.size() ? " or " : ", ").append(words[i]);
  if (arguments.size() < 2 || arguments[1].starts_with("-")) fail_input("[{}] expected {} after `comera {}`", first, list, first);
  fail_input("[{}] '{}' is none of {}{}", first, arguments[1], list, did_you_mean(arguments[1], words));
}

// Takes the words of the verb off the front.
const Verb& find_verb(Arguments& arguments) {
  const std::string first = arguments[0];
  const std::string two = arguments.size() > 1 ? first + " " + arguments[1] : first;
  bool is_group = false;
  for (const Verb& verb : verbs()) {
    is_group = is_group || verb.name.starts_with(first + " ");
    if (verb.name != first && verb.name != two) continue;
    arguments.erase(arguments.begin(), arguments.begin() + (verb.name == first ? 1 : 2));
    return verb;
  }
  if (is_group) fail_second_word(first, arguments);
  fail_unknown_verb(first, all_tables());
}

void set_up_messages(const OptionValues& values) {
  LogSettings settings;
  if (values.flag("quiet")) settings.level = LogLevel::warning;
  if (values.flag("verbose")) settings.level = LogLevel::detail;
  if (values.has("log-file")) settings.file = values.text("log-file");
  set_up_log(settings);
}

int run_verb(Arguments arguments) {
  const Verb& verb = find_verb(arguments);
  const OptionTable table = verb.table();
  const ParsedCommand command = parse_command(table, std::move(arguments));
  if (command.print) {
    print_out(*command.print);
    return 0;
  }
  if (table.find("log-file")) set_up_messages(command.values);
  return verb.run(command.values);
}

bool asks_for_help(const std::string& word) { return word == "--help" || word == "-h" || word == "help"; }

int dispatch(Arguments arguments) {
  if (arguments.empty()) fail_input("[comera] no verb was given; `comera --help` lists them");
  if (arguments[0] == "--version") arguments[0] = "version";
  const bool first = asks_for_help(arguments[0]);
  const bool second = arguments.size() == 2 && asks_for_help(arguments[1]);
  const std::string help = first && arguments.size() > 1 ? group_help(arguments[1]) : second ? group_help(arguments[0]) : "";
  if (!help.empty() || (first && arguments.size() == 1)) {
    print_out(help.empty() ? program_help() : help);
    return 0;
  }
  if (first) arguments.erase(arguments.begin());
  return run_verb(std::move(arguments));
}

int complain(int code, std::string_view text) noexcept {
  try {
    set_live_line("");
    log_message(LogLevel::error, text);
  } catch (...) {
    std::fwrite(text.data(), 1, text.size(), stderr);
  }
  return code;
}

}  // namespace

int run_program(std::vector<std::string> arguments) {
  try {
    return dispatch(std::move(arguments));
  } catch (const InputError& error) {
    return complain(2, error.what());
  } catch (const RunError& error) {
    return complain(1, error.what());
  } catch (const std::filesystem::filesystem_error& error) {  // a name that is too long, links in a loop, a folder that may not be read
    return complain(2, fmt::format("{}: {}; check the path", error.path1().string(), error.code().message()));
  } catch (const std::bad_alloc&) {
    return complain(1, "out of memory; use a smaller --batch or --seq, or --recompute block");
  } catch (const std::exception& error) {
    const std::string_view text = error.what();
    if (text.starts_with("[bug]")) return complain(1, text);
    return complain(1, "[bug] " + std::string(text) + "; please report this with the command that you ran");
  }
}

void print_out(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return;
  fail_run("[comera] stdout cannot be written: {}", std::strerror(errno));
}

Option json_option() {
  return {.name = "json", .type = OptionType::flag, .group = "Output", .help = "print one JSON object on stdout, everything else on stderr"};
}

}  // namespace comera::tools
