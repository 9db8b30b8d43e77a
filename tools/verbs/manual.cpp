// `comera manual`.
#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/options/option_pages.h"
#include "lib/core/version.h"
#include "tools/verbs.h"

namespace comera::tools {

OptionTable manual_table() {
  OptionTable table("manual", "write the pages about all options, for man or as Markdown");
  table.positional({.name = "KIND", .help = "man or markdown", .suggested = {"man", "markdown"}});
  table.add({{.name = "output",
              .type = OptionType::path,
              .group = "Output",
              .help = "folder to write; pages of the same names are replaced",
              .metavar = "FOLDER",
              .short_name = 'o',
              .in_config = false}});
  table.add(common_options()).synonyms({"docs", "man", "doc", "documentation"});
  return table.example("comera manual man -o ~/.local/share/man/man1");
}

int run_manual(const OptionValues& values) {
  const std::string& kind = values.positionals()[0];
  if (kind != "man" && kind != "markdown") fail_input("[manual] '{}' is none of man, markdown", kind);
  if (!values.has("output")) fail_input("[manual] --output is missing: name the folder to write");
  const bool man = kind == "man";
  const std::string& folder = values.text("output");
  std::vector<OptionTable> tables;
  for (const Verb& verb : verbs()) tables.push_back(verb.table());
  make_folders(folder);
  for (const OptionTable& table : tables) {
    const std::string name = man ? "comera-" + page_name(table) + ".1" : page_name(table) + ".md";
    write_file_atomic(join_path(folder, name), man ? man_page(table, version().version) : markdown_page(table));
  }
  write_file_atomic(join_path(folder, man ? "comera.1" : "README.md"),
                    man ? man_index(tables, version().version) : markdown_index(tables));
  return 0;
}

}  // namespace comera::tools
