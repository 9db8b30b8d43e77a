#include "lib/core/options/options.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "lib/core/error.h"
#include "lib/core/options/suggest.h"
#include "tests/core/temporary_folder.h"

using namespace comera;
using Catch::Matchers::Contains;
using Catch::Matchers::Equals;

namespace {

OptionTable table() {
  OptionTable table("pretrain", "learn a task from data");
  table
      .add({{.name = "rank",
             .type = OptionType::integer,
             .default_text = "16",
             .group = "Model",
             .help = "inner ranks",
             .result_relevant = true,
             .minimum = 1},
            {.name = "lr",
             .type = OptionType::real,
             .default_text = "5e-4",
             .group = "Training",
             .help = "learning rate",
             .result_relevant = true,
             .synonyms = {"learning-rate"}},
            {.name = "form",
             .type = OptionType::choice,
             .default_text = "tt",
             .group = "Model",
             .help = "form of weights",
             .choices = {"dense", "tt", "lowrank"}},
            {.name = "data",
             .type = OptionType::list,
             .group = "Data",
             .help = "training files",
             .metavar = "FILE,...",
             .files = FileUse::read},
            {.name = "target-size", .type = OptionType::size, .group = "Training", .help = "size to reach"},
            {.name = "save-every",
             .type = OptionType::period,
             .default_text = "20m",
             .group = "Run",
             .help = "how often to save"},
            {.name = "resume",
             .type = OptionType::string,
             .group = "Run",
             .help = "go on",
             .without_value = "auto",
             .in_config = false},
            {.name = "output",
             .type = OptionType::path,
             .group = "Run",
             .help = "run folder",
             .short_name = 'o',
             .in_config = false},
            {.name = "shuffle", .type = OptionType::flag, .default_text = "true", .group = "Data", .help = "shuffle"},
            {.name = "threads",
             .type = OptionType::integer,
             .group = "Run",
             .help = "worker threads",
             .default_words = "number of cores"}})
      .add(common_options())
      .foreign_table("hashes")
      .example("comera pretrain --data train.tsv -o run");
  return table;
}

const char* no_environment(const std::string&) { return nullptr; }

OptionValues parse(const OptionTable& table, std::vector<std::string> arguments) {
  return parse_command(table, std::move(arguments), no_environment).values;
}

struct TomlFile {
  explicit TomlFile(const std::string& text) { std::ofstream(path) << text; }
  TemporaryFolder folder;  // of its own, because tests run side by side
  std::string path = folder / "options.toml";
};

}  // namespace

TEST_CASE("options: defaults, flags, units and spellings of the command line") {
  const OptionTable options = table();
  const OptionValues values =
      parse(options, {"--rank", "8", "--lr=1e-3", "--target_size", "1.5MB", "--data", "a.tsv,b.tsv", "--data=c_d.tsv",
                      "-o", "run", "--no-shuffle", "--save-every", "2e"});
  CHECK(values.integer("rank") == 8);
  CHECK(values.real("lr") == 1e-3);
  CHECK(values.text("form") == "tt");
  CHECK(values.size("target-size") == 1500000);
  CHECK(values.list("data") == std::vector<std::string>{"a.tsv", "b.tsv", "c_d.tsv"});
  CHECK(values.text("output") == "run");
  CHECK_FALSE(values.flag("shuffle"));
  CHECK(values.period("save-every") == Period{Period::Unit::epochs, 2});
  CHECK_FALSE(values.has("threads"));
  CHECK_FALSE(values.given("form"));
  CHECK(values.given("rank"));
  CHECK_FALSE(values.has("resume"));
}

TEST_CASE("options: the name of a data file may hold a comma") {
  const OptionTable options = table();
  const TemporaryFolder folder;
  const std::string named = folder / "one,two.tsv", absent = folder / "one,three.tsv";
  std::ofstream(named) << "text";
  CHECK(parse(options, {"--data", named, "--data", "c.tsv"}).list("data") == std::vector<std::string>{named, "c.tsv"});
  CHECK(parse(options, {"--data", absent}).list("data") == std::vector<std::string>{folder / "one", "three.tsv"});
}

TEST_CASE("options: a value may be omitted if the table allows it, and the last one wins") {
  const OptionTable options = table();
  CHECK(parse(options, {"--resume", "--rank", "8"}).text("resume") == "auto");
  CHECK(parse(options, {"--resume"}).text("resume") == "auto");
  CHECK(parse(options, {"--resume", "run"}).text("resume") == "run");
  CHECK(parse(options, {"--resume=run"}).text("resume") == "run");
  CHECK(parse(options, {"--rank", "8", "--rank", "9"}).integer("rank") == 9);
  CHECK(parse(options, {"--lr", "-1e-3"}).real("lr") == -1e-3);
  CHECK(parse(options, {"--shuffle"}).flag("shuffle"));
}

TEST_CASE("options: precedence is default, environment, file, flag") {
  const OptionTable options = table();
  const TomlFile file("rank = 5\nform = \"dense\"\nsave_every = 500\ndata = [\"x.tsv\"]\n[hashes]\ndata = \"abc\"\n");
  const auto environment = [](const std::string& name) -> const char* {
    return name == "COMERA_RANK"         ? "4"
           : name == "COMERA_SAVE_EVERY" ? "1h"
           : name == "COMERA_THREADS"    ? "3"
           : name == "COMERA_DATA"       ? "/data"
                                         : nullptr;
  };
  const OptionValues values = parse_command(options, {"--config", file.path, "--form", "lowrank"}, environment).values;
  CHECK(values.integer("rank") == 5);
  CHECK(values.text("form") == "lowrank");
  CHECK(values.integer("threads") == 3);
  CHECK(values.period("save-every") == Period{Period::Unit::steps, 500});
  CHECK(values.list("data") == std::vector<std::string>{"x.tsv"});
  CHECK(values.source("threads") == OptionSource::environment);
  CHECK_FALSE(parse_command(options, {}, environment)
                  .values.has("data"));  // COMERA_DATA is a folder of data sets, not this option
}

TEST_CASE("options: wrong usage gives one error message with the remedy") {
  const OptionTable options = table();
  const auto message = [&](std::vector<std::string> arguments) -> std::string {
    try {
      parse(options, std::move(arguments));
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  };
  CHECK_THAT(message({"--rnk", "8"}), Contains("unknown option --rnk") && Contains("did you mean --rank?"));
  CHECK_THAT(message({"--learning-rate", "1"}), Contains("did you mean --lr?"));
  CHECK_THAT(message({"--learnig-rat=1"}), Contains("did you mean --lr?"));
  CHECK_THAT(message({"--target-sise=3"}), Contains("--target-sise") && Contains("--target-size?"));
  CHECK_THAT(message({"--rank", "eight"}), Contains("--rank") && Contains("whole number") && Contains("'eight'"));
  CHECK_THAT(message({"--rank", "0"}), Contains("the least is 1"));
  CHECK_THAT(message({"--rank"}), Contains("[pretrain]") && Contains("--rank"));
  CHECK_THAT(message({"--data", "--rank", "8"}), Contains("--data needs a value") && Contains("--rank"));
  CHECK_THAT(message({"--form", "dens"}), Contains("dense, tt, lowrank") && Contains("did you mean dense?"));
  CHECK_THAT(message({"--lr", "nan"}), Contains("number"));
  CHECK_THAT(message({"--lr", "1e999"}), Contains("number"));
  CHECK_THAT(message({"--target-size", "big"}), Contains("1.5MB"));
  CHECK_THAT(message({"--save-every", "5 apples"}), Contains("20m"));
  CHECK_THAT(message({"extra.tsv"}), Contains("unexpected argument 'extra.tsv'"));
  CHECK_THAT(message({"--data", ""}), Contains("empty"));
  CHECK_THAT(message({"--config", "/nowhere.toml"}), Contains("/nowhere.toml") && Contains("No such file"));
  CHECK_THAT(message({"-x"}), Contains("unknown option -x"));
  OptionTable tables[] = {OptionTable("pretrain", ""), OptionTable("finetune", ""),
                          OptionTable("tokenizer encode", "")};
  tables[0].synonyms({"train"});
  tables[1].synonyms({"train"});
  tables[2].synonyms({"tokenize"});
  CHECK_THROWS_WITH(fail_unknown_verb("pretain", tables), Contains("did you mean pretrain?"));
  CHECK_THROWS_WITH(fail_unknown_verb("trian", tables), Contains("did you mean pretrain or finetune?"));
  CHECK_THROWS_WITH(fail_unknown_verb("tokenise", tables), Contains("did you mean tokenizer encode?"));
}

TEST_CASE("options: positionals") {
  OptionTable options("evaluate", "measure a model");
  options.positional({"MODEL", "model folder"})
      .add({{.name = "data", .type = OptionType::list, .help = "files"}})
      .add(common_options());
  CHECK(parse(options, {"run", "--data", "x"}).positionals() == std::vector<std::string>{"run"});
  CHECK(parse(options, {"--data", "x", "run"}).positionals() == std::vector<std::string>{"run"});
  CHECK(parse(options, {"--data", "x", "--", "-run"}).positionals() == std::vector<std::string>{"-run"});
  CHECK_THROWS_WITH(parse(options, {"--data", "x"}), Contains("MODEL is missing"));
  CHECK_THROWS_WITH(parse(options, {"", "--data", "x"}), Contains("MODEL: the value is empty"));
  CHECK_THROWS_WITH(parse(options, {"a", "b"}), Contains("unexpected argument 'b'"));
  CHECK(parse_command(options, {"--help"}, no_environment).print.has_value());
}

TEST_CASE("options: errors for unknown keys, wrong types and broken syntax in files name the line") {
  const OptionTable options = table();
  const auto message = [&](const std::string& text) -> std::string {
    OptionValues values(options);
    try {
      apply_toml(values, text, "run.toml");
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  };
  CHECK_THAT(message("rank = 3\nrnak = 4\n"), Contains("run.toml:2") && Contains("did you mean rank?"));
  CHECK_THAT(message("rank = 1.5\n"), Contains("run.toml:1") && Contains("whole number"));
  CHECK_THAT(message("rank = [3]\n"), Contains("one value"));
  CHECK_THAT(message("rank = \n"), Contains("run.toml:1"));
  CHECK_THAT(message("rank = 1\nrank = 2\n"), Contains("run.toml:2"));
  // Not in a recipe, which contains only options that determine results.
  CHECK_THAT(message("output = \"x\"\n"), Contains("command line"));
  CHECK_THAT(message("verb = \"export\"\n"), Contains("comera export"));
  CHECK_THAT(message("[elsewhere]\nrank = 1\n"), Contains("elsewhere"));
  CHECK_THAT(message("rank = \xff\n"), Contains("run.toml"));
  CHECK_THAT(message("rank = \u00e9\n"),
             Contains("run.toml:1"));  // toml++ 3.3.0 treats letters beyond ASCII as unreachable
  CHECK(message("data = \"\"\"\\\n \u00e9\"\"\"\n") == "accepted");
}

TEST_CASE("options: a recipe reads back to the same values") {
  const OptionTable options = table();
  const OptionValues values = parse(options, {"--rank", "8", "--lr", "3", "--data", "a \"b\".tsv,c\\d", "--target-size",
                                              "2GiB", "--save-every", "90s", "--no-shuffle"});
  OptionValues again(options);
  apply_toml(again, to_toml(values), "dump");
  for (const std::string& name : options.names()) CHECK(again.canonical(name) == values.canonical(name));
  CHECK_THAT(to_toml(values), Contains("\nform = \"tt\"\n") && !Contains("output"));
  CHECK(toml_verb(to_toml(values), "f") == "pretrain");
  CHECK(toml_verb("rank = 1\n", "f").empty());
  CHECK(toml_verb("= = =", "f").empty());
}

TEST_CASE("options: a dumped call contains the whole call and nothing else") {
  OptionTable options = table();
  options.positional({"MODEL", "model folder", 1, -1});
  const std::vector<std::string> call{"a \"model\"", "b", "--rank", "8", "--no-shuffle", "-o", "run", "--resume"};
  std::vector<std::string> dumping = call;
  dumping.emplace_back("--dump-config");
  const TomlFile file(*parse_command(options, dumping, no_environment).print);
  const OptionValues before = parse(options, call), after = parse(options, {"--config", file.path});
  CHECK(after.positionals() == before.positionals());
  for (const Option& option : options.options()) {
    if (!option.in_dump) continue;
    CHECK(after.canonical(option.name) == before.canonical(option.name));
    CHECK(after.given(option.name) ==
          before.given(option.name));  // a default stays a default, because some verbs treat given values differently
  }
  CHECK(parse(options, {"c", "--config", file.path}).positionals() ==
        std::vector<std::string>{"c"});  // the command line wins
  CHECK(parse_command(options, {"--dump-config"}, no_environment)
            .print.has_value());  // also without MODEL, which the user can fill in
  const TomlFile without("rank = 3\n");
  CHECK_THROWS_WITH(parse(options, {"--config", without.path}), Contains("MODEL is missing"));
  const TomlFile help("help = true\n");
  CHECK_THROWS_WITH(parse(options, {"a", "--config", help.path}), Contains("command line"));
}

TEST_CASE("options: a positional sets the option of the same name") {
  OptionTable options("finetune", "train further");
  options.positional({"MODEL", "model folder", 0})
      .add({{.name = "model", .type = OptionType::path, .help = "model"}})
      .add(common_options());
  CHECK(parse(options, {"a"}).text("model") == "a");
  CHECK_FALSE(parse(options, {}).has("model"));
  CHECK(parse(options, {"a", "--model", "a"}).text("model") == "a");
  CHECK_THROWS_WITH(parse(options, {"a", "--model", "b"}), Contains("MODEL is a and --model is b"));
  const TomlFile file(*parse_command(options, {"a", "--dump-config"}, no_environment).print);
  CHECK(parse(options, {"--config", file.path}).text("model") == "a");
  CHECK(parse(options, {"b", "--config", file.path}).text("model") == "b");
}

TEST_CASE("options: result-relevant changes are compared by value, not by spelling") {
  const OptionTable options = table();
  CHECK(changed_options(parse(options, {"--lr", "1e-3"}), parse(options, {"--lr", "0.001", "--threads", "2"})).empty());
  CHECK(changed_options(parse(options, {"--lr", "1e-3"}), parse(options, {"--rank", "3", "--lr", "0.001"})) ==
        std::vector<std::string>{"rank"});
}

TEST_CASE("options: a duplicate name or letter fails when the table is built") {
  OptionTable options("x", "y");
  options.add(common_options());
  CHECK_THROWS_AS(options.add({{.name = "quiet", .type = OptionType::flag, .help = "again"}}), std::logic_error);
  CHECK_THROWS_AS(options.add({{.name = "other", .type = OptionType::flag, .help = "again", .short_name = 'q'}}),
                  std::logic_error);
  CHECK_THROWS_AS(options.add({{.name = "no-quiet", .type = OptionType::flag, .help = "clashes"}}), std::logic_error);
  CHECK_THROWS_AS(options.add({{.name = "Bad_Name", .type = OptionType::flag, .help = "not kebab"}}), std::logic_error);
}

TEST_CASE("options: one without an effect is refused on the command line alone") {
  OptionTable options("learn", "learns");
  options.add(
      {{.name = "task", .type = OptionType::choice, .default_text = "a", .help = "t", .choices = {"a", "b", "c"}},
       {.name = "dev", .type = OptionType::list, .help = "d"},
       {.name = "fast", .type = OptionType::flag, .help = "f"},
       {.name = "share", .type = OptionType::real, .help = "s"},
       {.name = "patience", .type = OptionType::integer, .default_text = "0", .help = "p"}});
  options.add(common_options()).only_with({"task=b|c"}, {"share"}).only_with({"dev", "fast"}, {"patience"});
  const auto check = [&](std::vector<std::string> words) { refuse_without_effect(parse(options, std::move(words))); };
  for (const auto& words : std::vector<std::vector<std::string>>{{},
                                                                 {"--task", "b", "--share", "1"},
                                                                 {"--task=c", "--share=1"},
                                                                 {"--patience", "2", "--dev", "x"},
                                                                 {"--patience", "2", "--fast"}})
    CHECK_NOTHROW(check(words));
  CHECK_THROWS_WITH(check({"--share", "1"}),
                    Equals("[learn] --share has no effect without --task b|c; add it, or leave out --share"));
  CHECK_THROWS_WITH(check({"--patience", "2", "--no-fast"}), Contains("without --dev or --fast; add it"));
  const TomlFile file("share = 1\npatience = 2\n");
  CHECK_NOTHROW(check({"--config", file.path}));
  CHECK_THROWS_AS(options.only_with({"tusk=b"}, {"share"}), std::logic_error);
}

TEST_CASE("suggest: only near words are suggested") {
  const std::vector<std::string> known{"rank", "max-rank", "target-ratio"};
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("ab", "ba") == 1);
  CHECK(nearest_word("rnak", known) == "rank");
  CHECK(nearest_word("taget-ratio", known) == "target-ratio");
  CHECK(nearest_word("zebra", known).empty());
  CHECK(nearest_word("RANK", known) == "rank");
  CHECK(nearest_word("Ranks", {{"RANK", "rank"}}) == "rank");
  // At most a third of the letters differ.
  CHECK(nearest_word("svd", {{"export"}}).empty());
  CHECK(nearest_word("val", {{"tau"}}).empty());
  CHECK(nearest_word("student", {{"quiet"}}).empty());
  CHECK(did_you_mean("rank2", known, "--") == "; did you mean --rank?");
  const std::vector<KnownWord> words{
      {"steps", "steps"}, {"epochs", "epochs"}, {"duration", "steps"}, {"duration", "epochs"}};
  CHECK(did_you_mean("duratoin", words, "--") == "; did you mean --steps or --epochs?");
  CHECK(did_you_mean("step", words, "--") == "; did you mean --steps?");
  CHECK(did_you_mean("zebra", words).empty());
}

TEST_CASE("keys of many levels are refused before the parser sees them") {
  const OptionTable options = table();
  const auto refused = [&](const std::string& text) {
    OptionValues values(options);
    CHECK_THROWS_WITH(apply_toml(values, text, "c.toml"), Contains("c.toml:") && Contains("more than 32 levels"));
    CHECK_THROWS_WITH(toml_texts(text, "c.toml", "hashes"), Contains("more than 32 levels"));
    CHECK_THROWS_WITH(toml_verb(text, "c.toml"), Contains("more than 32 levels"));
  };
  std::string deep = "a";
  for (int i = 0; i < 1'000'000; ++i) deep += ".a";
  refused("rank = 8\n" + deep + " = 1\n");
  refused("[" + deep + "]\n");
  refused("x = {" + deep + " = 1}\n");
  std::string quoted;
  for (int i = 0; i < 100; ++i) quoted += "\"a\" . 'b' . ";
  refused(quoted + "c = 1\n");
  // Dots in values, strings and comments do not count.
  const std::string dots(100, '.');
  OptionValues values(options);
  apply_toml(values, "# " + dots + "\ndata = [\"a" + dots + "\", 'b" + dots + "']\nlr = 1.5\n", "c.toml");
  CHECK(values.list("data").size() == 2);
}
