#include "lib/report/output/origin.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <vector>

#include "lib/core/join.h"
#include "lib/core/process.h"
#include "lib/core/version.h"

namespace comera::report {
namespace {

// Returns one word of a command line, quoted if a shell would split or expand it.
std::string shell_word(const std::string& word) {
  constexpr const char* plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+,./:@%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

// Set by the thread that opens the machine, before it computes.
std::vector<std::string>& variants() {
  static std::vector<std::string> all;
  return all;
}

std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string out;
  for (std::string word; std::getline(file, word, '\0');) out += (out.empty() ? "" : " ") + shell_word(word);
  return out;
}

}  // namespace

Origin origin() {
  const Version& facts = version();
  return {utc_time(), fmt::format("comera {} (commit {})", facts.version, facts.commit), command_line(),
          fmt::format("{}, {}{}{}", cpu_name(), counted_cpus(cpu_count()), variants().empty() ? "" : ", ",
                      join(variants(), ", "))};
}

void computes_with(const std::string& variant) {
  std::vector<std::string>& all = variants();
  if (!variant.empty() && std::find(all.begin(), all.end(), variant) == all.end()) all.push_back(variant);
}

}  // namespace comera::report
