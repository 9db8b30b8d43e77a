#include "lib/report/output/origin.h"

#include <fmt/core.h>

#include <fstream>

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
          fmt::format("{}, {} processors", cpu_name(), cpu_count())};
}

}  // namespace comera::report
