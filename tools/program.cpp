#include "tools/program.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>
#include <optional>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/files/outputs.h"
#include "lib/core/options/option_pages.h"
#include "lib/core/options/suggest.h"
#include "lib/core/terminal/live_line.h"
#include "lib/core/terminal/log.h"
#include "lib/core/terminal/stop.h"
#include "lib/core/terminal/task_progress.h"
#include "lib/core/terminal/terminal.h"
#include "lib/io/json_file.h"
#include "lib/report/output/live_line.h"
#include "tools/run_setup.h"

namespace comera::tools {
namespace {

using Arguments = std::vector<std::string>;

std::vector<OptionTable> all_tables() {
  std::vector<OptionTable> tables;
  for (const Verb& verb : verbs()) tables.push_back(verb.table());
  return tables;
}

std::string program_help() {
  constexpr int least_columns = 40;
  const int columns = std::max(least_columns, terminal_columns(STDOUT_FILENO)), column = columns < 60 ? 18 : 20;
  const auto line = [&](std::string_view name, const std::string& text) {
    return fmt::format("  {:<{}}{}\n", name, column, wrap(text, columns, column + 2, column + 2));
  };
  std::string out = "usage: comera VERB [options]\n\n";
  out += wrap("Train and compress models in tensor-train form.", columns) + "\n\nExample:\n" +
         command_lines("comera tensorize all-MiniLM-L6-v2 -o small --ratio 1.5", columns) + "\nVerbs:\n";
  for (const Verb& verb : verbs()) out += line(verb.name, verb.table().summary());
  out += "\nGeneral:\n" + line("--version", "print the version and the hardware; with --device cuda the GPUs");
  out += line("--help", "this help; `comera VERB --help` shows the common options of a verb, --help-all all of them");
  return out + "\n" +
         wrap("Exit codes: 0 success, 1 failure during the run, 2 wrong usage or input, 128+n stopped by signal n",
              columns) +
         "\n";
}

// Help for all verbs that share the first word; "" if no verb has it.
std::string group_help(const std::string& word, HelpDepth depth) {
  std::string out;
  for (const Verb& verb : verbs())
    if (verb.name == word || verb.name.starts_with(word + " "))
      out.append(out.empty() ? "" : "\n").append(help_text(verb.table(), depth, terminal_columns(STDOUT_FILENO)));
  return out;
}

[[noreturn]] void fail_second_word(const std::string& first, const Arguments& arguments) {
  std::vector<std::string> words;
  for (const Verb& verb : verbs())
    if (verb.name.starts_with(first + " ")) words.emplace_back(verb.name.substr(first.size() + 1));
  std::string list = words.front();
  for (std::size_t i = 1; i < words.size(); ++i) list.append(i + 1 == words.size() ? " or " : ", ").append(words[i]);
  if (arguments.size() < 2 || arguments[1].starts_with("-"))
    fail_input("[{}] expected {} after `comera {}`", first, list, first);
  fail_input("[{}] '{}' is none of {}{}", first, arguments[1], list, did_you_mean(arguments[1], words));
}

// Removes the words of the verb from the front of the arguments.
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

// The run folder that --resume names, or --output if --resume has no value. "" if neither is given.
std::string resumed_run(const Arguments& arguments) {
  bool resume = false;
  std::string named, output;
  for (std::size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
    const std::string& word = arguments[i];
    const std::string next = i + 1 < arguments.size() && !arguments[i + 1].starts_with("-") ? arguments[i + 1] : "";
    if (word == "--resume") resume = true, named = next;
    if (word.starts_with("--resume=")) resume = true, named = word.substr(std::string_view("--resume=").size());
    if (word == "-o" || word == "--output") output = next;
  }
  return !resume ? "" : named.empty() ? output : named;
}

// The verb that started the run in `folder`, which may differ from the typed one. Null if there is no run.
const Verb* verb_of_run(const std::string& folder) {
  const std::string path = join_path(folder, "recipe.toml");
  if (folder.empty() || !path_exists(path)) return nullptr;
  const std::string name = toml_verb(read_file(path, io::largest_recipe), path);
  for (const Verb& verb : verbs())
    if (verb.name == name && verb.table().find("resume")) return &verb;
  return nullptr;
}

// A recipe has paths as they were typed.
void require_files(const OptionTable& table, const std::string& run) {
  const std::string path = join_path(run, "recipe.toml");
  OptionValues recipe(table);
  apply_toml(recipe, read_file(path, io::largest_recipe), path);
  for (const NamedPath& file : named_files(recipe).inputs)
    if (!file.path.starts_with('/') && !path_exists(file.path))
      fail_input(
          "[resume] {}: no such file here; the paths in {} count from the folder where the run started: go there, or "
          "put "
          "the file back",
          file.path, path);
}

int work(const Verb& verb, const OptionValues& values) {
  if (!verb.doing) return verb.run(values);
  catch_stop_signals();
  const report::LiveLine live;
  std::optional<TaskProgress> task;
  if (*verb.doing) task.emplace(verb.doing);
  return verb.run(values);
}

int run_verb(const Verb& typed, Arguments arguments) {
  const Verb* verb = &typed;
  const std::string run = typed.table().find("resume") ? resumed_run(arguments) : "";
  const Verb* began = verb_of_run(run);
  if (began && began->name != typed.name) {
    log_info("{} is a run of {}: it continues as comera {} --resume {}", run, began->name, began->name, run);
    verb = began;
  }
  const OptionTable table = verb->table();
  const ParsedCommand command = parse_command(table, std::move(arguments));
  if (command.print) {
    print_out(*command.print);
    return 0;
  }
  check_outputs(command.values);
  if (began && !command.values.flag("override")) require_files(table, run);
  if (table.find("log-file")) set_up_messages(command.values);
  return work(*verb, command.values);
}

// `comera --resume RUN`.
int resume_run(Arguments arguments) {
  const std::string run = resumed_run(arguments);
  if (run.empty()) fail_input("[comera] --resume needs the folder of a run: comera --resume RUN");
  const Verb* verb = verb_of_run(run);
  if (!verb) fail_input("[comera] --resume {}: {}", run, why_no_run(run));
  return run_verb(*verb, std::move(arguments));
}

bool is_help(const std::string& word) {
  return word == "--help" || word == "-h" || word == "help" || word == "--help-all";
}

HelpDepth depth_of(const Arguments& arguments) {
  return std::find(arguments.begin(), arguments.end(), "--help-all") == arguments.end() ? HelpDepth::common
                                                                                        : HelpDepth::all;
}

// "" if the arguments do not request help.
std::string help_for(const Arguments& arguments) {
  if (arguments.empty()) return program_help();
  const bool first = is_help(arguments[0]);
  if (first && arguments.size() == 1) return program_help();
  if (first) return group_help(arguments[1], depth_of(arguments));
  return arguments.size() == 2 && is_help(arguments[1]) ? group_help(arguments[0], depth_of(arguments)) : "";
}

int dispatch(Arguments arguments) {
  if (!arguments.empty() && arguments[0] == "--version") arguments[0] = "version";
  if (const std::string help = help_for(arguments); !help.empty()) {
    print_out(help);
    return 0;
  }
  if (is_help(arguments[0])) arguments.erase(arguments.begin());
  if (arguments[0] == "--resume" || arguments[0].starts_with("--resume=")) return resume_run(std::move(arguments));
  const Verb& verb = find_verb(arguments);
  return run_verb(verb, std::move(arguments));
}

int complain(int code, std::string_view text) noexcept {
  try {
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
  } catch (const Stopped& stopped) {
    return 128 + stopped.signal;
  } catch (const InputError& error) {
    return complain(2, error.what());
  } catch (const RunError& error) {
    return complain(1, error.what());
  } catch (const std::filesystem::filesystem_error&
               error) {  // a name that is too long, a cycle of links, a folder without read permission
    return complain(2, fmt::format("{}: {}; check the path", error.path1().string(), error.code().message()));
  } catch (const std::bad_alloc&) {
    return complain(1, "out of memory; use a smaller --batch, --accumulate or --seq, or --activations block");
  } catch (const std::exception& error) {
    const std::string_view text = error.what();
    if (text.starts_with("[bug]")) return complain(1, text);
    return complain(1, "[bug] " + std::string(text) + "; please report this with the command that you ran");
  }
}

void print_out(std::string_view text) {
  if (write_stdout(text)) return;
  fail_run("[comera] stdout cannot be written: {}", std::strerror(errno));
}

Option json_option() {
  return {.name = "json",
          .type = OptionType::flag,
          .group = "Output",
          .help = "print one JSON object on stdout, everything else on stderr"};
}

}  // namespace comera::tools
