// `comera completion`.
#include "lib/core/options/option_pages.h"
#include "tools/verbs.h"

namespace comera::tools {

OptionTable completion_table() {
  OptionTable table("completion", "print a script that completes verbs and options in a shell");
  table.positional({.name = "SHELL", .help = "bash, zsh or fish", .suggested = {"bash", "zsh", "fish"}})
      .add(common_options())
      .example("source <(comera completion bash)");
  return table;
}

int run_completion(const OptionValues& values) {
  std::vector<OptionTable> tables;
  for (const Verb& verb : verbs()) tables.push_back(verb.table());
  print_out(completion_script(values.positionals()[0], tables));
  return 0;
}

}  // namespace comera::tools
