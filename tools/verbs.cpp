#include "tools/verbs.h"

namespace comera::tools {

std::span<const Verb> verbs() {
  static constexpr Verb all[] = {
      {"version", version_table, run_version},
      {"completion", completion_table, run_completion},
  };
  return all;
}

}  // namespace comera::tools
