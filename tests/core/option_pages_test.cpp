#include "lib/core/options/option_pages.h"

#include <catch2/catch.hpp>
#include <sstream>

#include "lib/core/error.h"
#include "lib/core/terminal/terminal.h"

using namespace comera;
using Catch::Matchers::Contains;

namespace {

OptionTable table() {
  OptionTable table(
      "tokenizer train",
      "learn a tokenizer from a sample of texts that is as long as a summary may become before it needs two lines");
  table.positional({.name = "KIND", .help = "of the tokenizer", .suggested = {"pieces", "bytes"}});
  table.add(
      {{.name = "rank",
        .type = OptionType::integer,
        .default_text = "16",
        .group = "Model",
        .help = "inner ranks of linear weights"},
       {.name = "gauge",
        .type = OptionType::flag,
        .default_text = "true",
        .group = "Model",
        .help = "puts an identity block into the last core"},
       {.name = "adapt",
        .type = OptionType::flag,
        .group = "Model",
        .help = "lets ranks fall",
        .default_words = "on with a target"},
       {.name = "form",
        .type = OptionType::choice,
        .group = "Model",
        .help = "form of weights",
        .choices = {"dense", "tt|ttm"}},
       {.name = "preset", .group = "Model", .help = ".a preset's name \\ or <path>", .suggested = {"small", "large"}},
       {.name = "output",
        .type = OptionType::path,
        .group = "Run",
        .help = "folder",
        .short_name = 'o',
        .in_config = false},
       {.name = "a-very-long-name-of-an-option",
        .type = OptionType::choice,
        .group = "Run",
        .help = "a sentence that goes on and on until it is certain that it fills more than one line of any terminal "
                "that people use today",
        .choices = {"one", "another"},
        .default_words = "whatever is best"}});
  return table.add(common_options())
      .common({"output", "gauge"})
      .example(
          "comera tokenizer train pieces --preset 'small or large words that stay together' --rank 16 --form dense -o "
          "folder")
      .example("comera tokenizer train bytes");
}

std::size_t longest_line(const std::string& text) {
  std::istringstream lines(text);
  std::size_t longest = 0;
  for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.size());
  return longest;
}

}  // namespace

TEST_CASE("option pages: text breaks at blanks") {
  CHECK(wrap("a bb ccc", 80) == "a bb ccc");
  CHECK(wrap("a bb ccc", 4) == "a bb\nccc");
  CHECK(wrap("a bb ccc", 6, 2) == "a bb\n  ccc");
  CHECK(wrap("a bb ccc", 6, 2, 4) == "a\n  bb\n  ccc");
  CHECK(wrap("  a   b ", 80) == "a b");
  CHECK(wrap("\u00e9\u00e9 \u00e9\u00e9", 5) == "\u00e9\u00e9 \u00e9\u00e9");  // counts columns, not bytes
  CHECK(wrap("longerthanthat a", 4) == "longerthanthat\na");
  CHECK(wrap("", 4).empty());
}

TEST_CASE("option pages: help has usage, an example and the common options, and fits the terminal") {
  const OptionTable options = table();
  const std::string help = help_text(options, HelpDepth::common, 80);
  CHECK(help.starts_with("usage: comera tokenizer train KIND [options]\n"));
  CHECK(help.find("Example:") < help.find("--output"));
  CHECK(help.find("--output") < help.find("--[no-]gauge"));  // in the order of common()
  CHECK_THAT(help, Contains("-o, --output PATH") && Contains("comera tokenizer train --help-all") &&
                       !Contains("--rank N") && !Contains("bytes\n"));
  const std::string all = help_text(options, HelpDepth::all, 80);
  for (const std::string& name : options.names()) CHECK_THAT(all, Contains(name));
  CHECK_THAT(all, Contains("(default: 16)") && Contains("(default: whatever is best)") &&
                      Contains("comera tokenizer train bytes\n"));
  CHECK_THAT(all, Contains(" \\\n      --preset 'small or large words that stay together' "));
  CHECK(all.find("Model:") < all.find("General:"));
  for (const int columns : {60, 80, 100, 120, 200})
    for (const HelpDepth depth : {HelpDepth::common, HelpDepth::all})
      CHECK(longest_line(help_text(options, depth, columns)) <= static_cast<std::size_t>(columns));
}

TEST_CASE("option pages: help fits a terminal of 40 columns") {
  OptionTable options("learn", "train a model that somebody has described in a file");
  options.positional({"MODEL", "a folder of a model, or a file with the weights of one"})
      .add({{.name = "layer",
             .type = OptionType::list,
             .help = "form of some weights, as in 'glob=form:tt;modes:24x16|384', or the name of a file with them"},
            {.name = "activations-of-all-layers",
             .type = OptionType::choice,
             .default_text = "keep",
             .help = "what the backward pass needs",
             .choices = {"keep", "recompute", "compress", "compress-more", "forget"}}})
      .add(common_options())
      .example("comera learn small --data train-images-idx3-ubyte.gz --steps 1000 -o run");
  for (const int columns : {20, 40, 50})
    for (const HelpDepth depth : {HelpDepth::common, HelpDepth::all}) {
      const std::string help = help_text(options, depth, columns);
      CHECK(longest_line(help) <= static_cast<std::size_t>(std::max(40, columns)));
      CHECK_THAT(help, Contains(" \\\n    --data train-images-idx3-ubyte.gz \\\n"));
    }
}

TEST_CASE("option pages: without a common list, help shows all options except those of every verb") {
  OptionTable options("version", "say what this is");
  options.add({{.name = "device", .help = "what to look at"}}).add(common_options());
  CHECK_THAT(help_text(options, HelpDepth::common, 80), Contains("--device") && !Contains("--log-file"));
}

TEST_CASE("option pages: a flag that is on by default shows both spellings") {
  const OptionTable options = table();
  CHECK(spelling_of(*options.find("gauge")) == "--[no-]gauge");
  CHECK(default_of(*options.find("gauge")) == "on");
  CHECK(spelling_of(*options.find("adapt")) == "--[no-]adapt");
  CHECK(default_of(*options.find("adapt")) == "on with a target");
  CHECK(spelling_of(*options.find("quiet")) == "--quiet");
  CHECK(default_of(*options.find("quiet")).empty());
}

TEST_CASE("option pages: Markdown and man list every option") {
  const OptionTable tables[] = {table()};
  CHECK(page_name(tables[0]) == "tokenizer-train");
  const std::string markdown = markdown_page(tables[0]), man = man_page(tables[0], "1.2.3");
  for (const Option& option : tables[0].options()) CHECK_THAT(markdown, Contains(option.name));
  CHECK_THAT(markdown, Contains("dense\\|tt\\|ttm") && Contains("&lt;path>") && Contains("`--[no-]gauge` | on |"));
  CHECK_THAT(man, Contains(".TH COMERA\\-TOKENIZER\\-TRAIN 1 \"\" \"comera 1.2.3\"") &&
                      Contains("\n.B \\-\\-[no\\-]gauge\n") && Contains("\n\\&.a preset's name \\e or <path>") &&
                      Contains(".SH EXIT STATUS"));
  CHECK_THAT(markdown_index(tables), Contains("[comera tokenizer train](tokenizer-train.md)"));
  CHECK_THAT(man_index(tables, "1.2.3"), Contains("comera\\-tokenizer\\-train (1)"));
}

TEST_CASE("option pages: completion offers both spellings of a flag, and values") {
  const OptionTable tables[] = {table()};
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string script = completion_script(shell, tables);
    for (const std::string& name : tables[0].names()) CHECK_THAT(script, Contains(name));
    CHECK_THAT(script,
               Contains("no-gauge") && Contains("small large") && Contains("pieces") && Contains("one another"));
  }
  CHECK_THROWS_AS(completion_script("tcsh", tables), InputError);
}

TEST_CASE("option pages: common options must exist and be at most ten") {
  OptionTable options("x", "y");
  CHECK_THROWS_AS(options.common({"absent"}), std::logic_error);
  CHECK_THROWS_AS(options.common(std::vector<std::string>(11, "absent")), std::logic_error);
}
