// One option table per verb feeds the command line, --config, --dump-config, --help, shell completion and the
// documentation (option_pages.h). Where a value comes from, weakest first: default, environment (COMERA_<NAME>),
// configuration file, command line. A verb uses it like this:
//   OptionTable table("pretrain", "learn a task from data");
//   table.add(common_options()).add({{.name = "rank", .type = OptionType::integer, .default_text = "16", .group =
//   "Model",
//                                     .help = "inner ranks of linear layers", .result_relevant = true}});
//   ParsedCommand command = parse_command(table, arguments after the verb);
//   if (command.print) { print *command.print to stdout; return 0; }
//   command.values.integer("rank");
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/core/units.h"

namespace comera {

enum class OptionType : std::uint8_t {
  flag,     // --name, --no-name
  integer,  // 64 bit
  real,     // finite
  string,
  list,    // comma-separated and repeatable; a value from a stronger source replaces the whole list
  choice,  // one of `choices`
  size,    // bytes: "1.5MB", "2GiB"
  period,  // "500" steps, "2e" epochs, "20m" time
  path,
};

// What a call does with the files that a value names: no output may harm an input (lib/core/outputs.h).
enum class FileUse : std::uint8_t { by_type, read, written };  // by_type: a path is read, another value names no files

struct Option {
  std::string name;  // kebab-case, without dashes
  OptionType type = OptionType::string;
  std::string default_text = {};  // "" : not set (a flag: off)
  std::string group = "General";
  std::string help = {};     // one sentence, lower case, no full stop
  std::string metavar = {};  // what stands for the value in help; "" : made from the type
  std::vector<std::string> choices = {};
  bool result_relevant = false;  // changes the result: refused on resume (changed_options)
  char short_name = 0;
  double minimum = -std::numeric_limits<double>::infinity();  // of integer and real, inclusive
  double maximum = std::numeric_limits<double>::infinity();
  std::string without_value = {};  // "--resume" alone means this text; "" : a value is needed
  std::string default_words = {};  // what help says for the default where the text does not tell ("number of cores")
  bool in_config =
      true;  // false: of one call (--resume, --output): in no recipe and not in the environment, but in --dump-config
  bool in_dump = true;  // false: says what to do with the call itself (--help, --config): in no file at all
  std::vector<std::string> suggested = {};  // values that completion offers where any other is taken too
  std::vector<std::string> synonyms = {};   // names in other programs, without dashes: for "did you mean"
  FileUse files = FileUse::by_type;
};

struct Positional {
  std::string name;  // as help shows it: MODEL; in small letters its key in files, and the option of that name, where
                     // there is one
  std::string help;
  int minimum = 1;
  int maximum = 1;                          // -1: any number
  std::vector<std::string> suggested = {};  // values that completion offers
};

class OptionTable {
 public:
  // `verb` may be two words ("tokenizer train"). Summary: one sentence, lower case, no full stop.
  OptionTable(std::string verb, std::string summary) : verb_(std::move(verb)), summary_(std::move(summary)) {}

  OptionTable& add(std::vector<Option> options);  // a name or letter given twice is a bug (std::logic_error)
  OptionTable& positional(Positional positional);
  OptionTable& example(std::string command_line);  // the first one stands in --help, all in --help-all
  // The options that --help shows, in that order, ten at most; without this call it shows all but those that every verb
  // has.
  OptionTable& common(std::vector<std::string> names);
  OptionTable& synonyms(std::vector<std::string> words);  // what people call the verb elsewhere, for "did you mean"
  // A TOML table that a file may hold beside the options ("hashes" in recipe.toml); its contents are not ours to check.
  OptionTable& foreign_table(std::string name);

  const std::string& verb() const { return verb_; }
  const std::string& summary() const { return summary_; }
  std::span<const Option> options() const { return options_; }
  std::span<const Positional> positionals() const { return positionals_; }
  std::span<const std::string> examples() const { return examples_; }
  std::span<const std::string> foreign_tables() const { return foreign_tables_; }
  std::span<const std::string> common() const { return common_; }
  std::span<const std::string> synonyms() const { return synonyms_; }
  const Option* find(std::string_view name) const;  // null where there is none
  std::vector<std::string> names() const;
  std::string positional_key() const;  // "model" of MODEL; "" where the verb takes no words

 private:
  std::string verb_, summary_;
  std::vector<Option> options_;
  std::vector<Positional> positionals_;
  std::vector<std::string> examples_, foreign_tables_, common_, synonyms_;
};

enum class OptionSource : std::uint8_t { fallback, environment, file, flag };

// The resolved values of one call. Every stored text was checked against its option, so the typed getters cannot fail
// on content; asking for an unknown name, another type, or (but for `list` and `flag`) an option without a value is a
// bug.
class OptionValues {
 public:
  explicit OptionValues(const OptionTable& table);  // the table must outlive the values

  bool has(std::string_view name) const;    // has a value, be it the default
  bool given(std::string_view name) const;  // has a value from the environment, a file or the command line
  OptionSource source(std::string_view name) const;

  bool flag(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;
  double real(std::string_view name) const;
  const std::string& text(std::string_view name) const;               // string, choice, path
  const std::vector<std::string>& list(std::string_view name) const;  // empty where not given
  std::uint64_t size(std::string_view name) const;                    // bytes
  Period period(std::string_view name) const;
  const std::vector<std::string>& positionals() const { return positionals_; }

  // Checks and stores. `where` opens the error ("[pretrain] --rank", "run.toml:3: rank"). Weaker sources never replace
  // stronger.
  void set(const Option& option, std::vector<std::string> texts, OptionSource source, std::string_view where);
  // Also for a program's own decisions (a preset's default): like a flag, or like a default with
  // OptionSource::fallback.
  void set(std::string_view name, std::string text, OptionSource source = OptionSource::flag);
  void set_positionals(std::vector<std::string> words) { positionals_ = std::move(words); }

  // The value in one spelling ("1e-3" and "0.001" are one); "" where it is not set. Lists are joined by commas.
  std::string canonical(std::string_view name) const;
  const OptionTable& table() const { return *table_; }

 private:
  struct Value {
    std::vector<std::string> texts;
    OptionSource source = OptionSource::fallback;
  };
  const Value& value_of(std::string_view name, OptionType type) const;

  const OptionTable* table_;
  std::map<std::string, Value, std::less<>> values_;
  std::vector<std::string> positionals_;
};

struct ParsedCommand {
  OptionValues values;
  std::optional<std::string> print;  // --help or --dump-config: to stdout, then exit 0
};

// Looks up COMERA_<NAME>; null where there is none. std::getenv, or a test's own.
using Environment = std::function<const char*(const std::string&)>;
const char* process_environment(const std::string& name);

// --config, --dump-config, --quiet, --verbose, --log-file, --help, --help-all: every verb has them.
std::vector<Option> common_options();

// Everything wrong is an InputError that opens with "[verb]".
ParsedCommand parse_command(const OptionTable& table, std::vector<std::string> arguments,
                            const Environment& environment = process_environment);
[[noreturn]] void fail_unknown_verb(std::string_view verb, std::span<const OptionTable> tables);

// What a file holds: the options that make a result (recipe.toml), or everything that one call said (--dump-config,
// --config).
enum class TomlScope : std::uint8_t { recipe, call };
// TOML. `file_name` is for errors only. Keys are option names (underscores accepted); `verb`, where present, must be
// the table's.
void apply_toml(OptionValues& values, std::string_view toml, std::string_view file_name,
                TomlScope scope = TomlScope::recipe);
// The texts of a table that a file holds beside the options, by key. InputError for what is no text, and where the file
// is no TOML.
std::map<std::string, std::string> toml_texts(std::string_view toml, std::string_view file_name,
                                              std::string_view table);
// The verb that a file is for; "" where it names none, or is no TOML.
std::string toml_verb(std::string_view toml);
// Every option that has a value; the rest, and all help, as comments.
std::string to_toml(const OptionValues& values, TomlScope scope = TomlScope::recipe);

// Names of result-relevant options whose values differ.
std::vector<std::string> changed_options(const OptionValues& before, const OptionValues& now);

}  // namespace comera
