// One option table per verb is the source of the command line, --config, --dump-config, --help, shell completion and
// the documentation (option_pages.h). Sources of values, weakest first: default, environment (COMERA_<NAME>),
// configuration file, command line. Use in a verb:
//   OptionTable table("pretrain", "learn a task from data");
//   table.add(common_options()).add({{.name = "rank", .type = OptionType::integer, .default_text = "16",
//                                     .group = "Model", .help = "inner ranks of linear layers",
//                                     .result_relevant = true}});
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
  list,    // comma-separated and repeatable; a value from a stronger source replaces the whole list. Of files that are
           // read: a value that is the name of a file is one item
  choice,  // one of `choices`
  size,    // bytes: "1.5MB", "2GiB"
  period,  // "500" steps, "2e" epochs, "20m" time
  path,
};

// Use of the files that a value names. No output may overwrite an input (lib/core/files/outputs.h).
enum class FileUse : std::uint8_t { by_type, read, written };  // by_type: a path is read, other types name no files

struct Option {
  std::string name;  // kebab-case, without dashes
  OptionType type = OptionType::string;
  std::string default_text = {};  // "": not set (a flag: off)
  std::string group = "General";
  std::string help = {};     // one sentence, lower case, no full stop
  std::string metavar = {};  // name of the value in help; "": derived from the type
  std::vector<std::string> choices = {};
  bool result_relevant = false;  // changes the result: a resume with another value is refused (changed_options)
  // Returns the words of a list that change the result; null: all of them.
  std::vector<std::string> (*relevant_words)(const std::vector<std::string>& words) = nullptr;
  char short_name = 0;
  double minimum = -std::numeric_limits<double>::infinity();  // of integer and real, inclusive
  double maximum = std::numeric_limits<double>::infinity();
  std::string without_value = {};  // value of "--resume" alone; "": the option needs a value
  std::string default_words = {};  // default as shown in help if it is computed ("number of cores")
  // False: the option belongs to one call (--resume, --output). It is in --dump-config, but not in a recipe or the
  // environment.
  bool in_config = true;
  bool in_dump = true;                      // false: controls the call itself (--help, --config). In no file
  std::vector<std::string> suggested = {};  // values that completion offers; other values are valid too
  std::vector<std::string> synonyms = {};   // names in other programs, without dashes, for "did you mean"
  std::string earlier_name = {};            // in files of earlier versions
  FileUse files = FileUse::by_type;
};

struct Positional {
  // As help shows it: MODEL. In lower case it is the key in files, and also the name of an option if one has that
  // name.
  std::string name;
  std::string help;
  int minimum = 1;
  int maximum = 1;                          // -1: any number
  std::vector<std::string> suggested = {};  // values that completion offers
};

class OptionTable {
 public:
  // `verb` may have two words ("tokenizer train"). `summary` is one sentence in lower case without full stop.
  OptionTable(std::string verb, std::string summary);
  // Defined in one source file, so that the users of a table do not compile them again.
  OptionTable(const OptionTable&);
  OptionTable(OptionTable&&) noexcept;
  OptionTable& operator=(const OptionTable&);
  OptionTable& operator=(OptionTable&&) noexcept;
  ~OptionTable();

  OptionTable& add(std::vector<Option> options);  // a duplicate name or letter is a bug (std::logic_error)
  OptionTable& positional(Positional positional);
  OptionTable& example(std::string command_line);  // --help shows the first example, --help-all shows all
  // The options that --help shows, in that order, ten at most. Without this call --help shows all options except those
  // that every verb has.
  OptionTable& common(std::vector<std::string> names);
  // The options `names` have an effect only if one of the conditions holds: NAME has a value (a flag: is on), or
  // NAME=VALUE|VALUE has one of these values. See refuse_without_effect().
  OptionTable& only_with(std::vector<std::string> conditions, std::vector<std::string> names);
  OptionTable& synonyms(std::vector<std::string> words);  // names of the verb in other programs, for "did you mean"
  // A TOML table that a file may contain beside the options ("hashes" in recipe.toml). Its contents are not checked
  // here.
  OptionTable& foreign_table(std::string name);

  const std::string& verb() const { return verb_; }
  const std::string& summary() const { return summary_; }
  std::span<const Option> options() const { return options_; }
  std::span<const Positional> positionals() const { return positionals_; }
  std::span<const std::string> examples() const { return examples_; }
  std::span<const std::string> foreign_tables() const { return foreign_tables_; }
  std::span<const std::string> common() const { return common_; }
  struct Dependence {
    std::vector<std::string> conditions, names;
  };
  std::span<const Dependence> dependences() const { return dependences_; }
  std::span<const std::string> synonyms() const { return synonyms_; }
  const Option* find(std::string_view name) const;  // null if there is none
  std::vector<std::string> names() const;
  std::string positional_key() const;  // "model" for MODEL; "" if the verb has no positionals

 private:
  std::string verb_, summary_;
  std::vector<Option> options_;
  std::vector<Positional> positionals_;
  std::vector<Dependence> dependences_;
  std::vector<std::string> examples_, foreign_tables_, common_, synonyms_;
};

enum class OptionSource : std::uint8_t { fallback, environment, file, flag };

// The resolved values of one call. Every stored text was checked against its option, so the typed getters cannot fail
// on content. It is a bug to read an unknown name, another type or (except `list` and `flag`) an option without a
// value.
class OptionValues {
 public:
  explicit OptionValues(const OptionTable& table);  // the table must outlive the values

  bool has(std::string_view name) const;    // has a value, which may be the default
  bool given(std::string_view name) const;  // has a value from the environment, a file or the command line
  OptionSource source(std::string_view name) const;

  bool flag(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;
  double real(std::string_view name) const;
  const std::string& text(std::string_view name) const;               // string, choice, path
  const std::vector<std::string>& list(std::string_view name) const;  // empty if not given
  std::uint64_t size(std::string_view name) const;                    // bytes
  Period period(std::string_view name) const;
  const std::vector<std::string>& positionals() const { return positionals_; }

  // Checks and stores a value. `where` starts the error message ("[pretrain] --rank", "run.toml:3: rank"). A weaker
  // source never replaces a stronger one.
  void set(const Option& option, std::vector<std::string> texts, OptionSource source, std::string_view where);
  // Also for values that the program itself sets (a preset's default). They count as given on the command line, or as
  // a default with OptionSource::fallback.
  void set(std::string_view name, std::string text, OptionSource source = OptionSource::flag);
  // The same in place of any value, also of one from a stronger source.
  void replace(std::string_view name, std::string text, OptionSource source);
  void set_positionals(std::vector<std::string> words) { positionals_ = std::move(words); }

  // The value in a unique spelling ("1e-3" and "0.001" give the same text); "" if it is not set. Lists are joined by
  // commas.
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
  std::optional<std::string> print;  // text of --help or --dump-config; the caller prints it to stdout and exits with 0
};

// Returns the value of COMERA_<NAME>, null if it is not set. std::getenv, or a function of a test.
using Environment = std::function<const char*(const std::string&)>;
const char* process_environment(const std::string& name);

// --config, --dump-config, --quiet, --verbose, --log-file, --help, --help-all: the options that every verb has.
std::vector<Option> common_options();

// Every error is an InputError whose message starts with "[verb]".
ParsedCommand parse_command(const OptionTable& table, std::vector<std::string> arguments,
                            const Environment& environment = process_environment);
// InputError for an option of the command line that has no effect in this call (OptionTable::only_with). Options of
// files and of the environment are meant for many calls. A verb calls it when the values that depend on its model and
// its data are set.
void refuse_without_effect(const OptionValues& values);
[[noreturn]] void fail_unknown_verb(std::string_view verb, std::span<const OptionTable> tables);

// Contents of a file. recipe: the options that determine a result (recipe.toml). call: all options of one call
// (--dump-config, --config).
enum class TomlScope : std::uint8_t { recipe, call };
// Reads options from TOML. `file_name` is only for errors. Keys are option names (underscores are accepted). `verb`,
// if present, must be the table's verb.
void apply_toml(OptionValues& values, std::string_view toml, std::string_view file_name,
                TomlScope scope = TomlScope::recipe);
// Returns the texts of a table that a file contains beside the options, by key. InputError for a value that is no
// string, and if the file is no TOML.
std::map<std::string, std::string> toml_texts(std::string_view toml, std::string_view file_name,
                                              std::string_view table);
// Returns the verb of the file; "" if it names none or is no TOML. InputError for keys of many levels.
std::string toml_verb(std::string_view toml, std::string_view file_name);
// Writes every option that has a value. Options without a value and all help texts are comments.
std::string to_toml(const OptionValues& values, TomlScope scope = TomlScope::recipe);

// Names of result-relevant options with different values.
std::vector<std::string> changed_options(const OptionValues& before, const OptionValues& now);

}  // namespace comera
