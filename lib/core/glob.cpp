#include "lib/core/glob.h"

#include <glob.h>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/hub_hint.h"

namespace comera {
namespace {

// Matches `c` against the set that starts at pattern[0] == '['. Returns the length of the set, or 0 if it has no end.
std::size_t match_set(std::string_view pattern, char c, bool& matched) {
  std::size_t at = 1;
  const bool negated = at < pattern.size() && (pattern[at] == '!' || pattern[at] == '^');
  if (negated) ++at;
  bool found = false;
  for (bool first = true; at < pattern.size() && (first || pattern[at] != ']'); first = false, ++at) {
    char low = pattern[at], high = low;
    if (at + 2 < pattern.size() && pattern[at + 1] == '-' && pattern[at + 2] != ']') high = pattern[at += 2];
    found |= low <= c && c <= high;
  }
  matched = found != negated;
  return at < pattern.size() ? at + 1 : 0;
}

// Matches one character of the name. Returns the length of the matched part of the pattern, 0 for no match.
std::size_t match_one(std::string_view pattern, char c) {
  if (pattern.empty()) return 0;
  if (pattern[0] == '?') return 1;
  if (pattern[0] == '[') {
    bool matched = false;
    if (const std::size_t length = match_set(pattern, c, matched)) return matched ? length : 0;
  }
  if (pattern[0] == '\\' && pattern.size() > 1) return pattern[1] == c ? 2 : 0;
  return pattern[0] == c ? 1 : 0;
}

}  // namespace

bool glob_match(std::string_view pattern, std::string_view name) {
  // On a mismatch only the last star takes one more character. The cost is linear in practice and never exponential.
  std::size_t p = 0, n = 0, star = std::string_view::npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (const std::size_t taken = match_one(pattern.substr(p), name[n])) {
      p += taken;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

bool is_glob(std::string_view text) { return text.find_first_of("*?[") != std::string_view::npos; }

std::vector<std::string> glob_files(const std::string& pattern) {
  if (!is_glob(pattern) || path_exists(pattern)) {
    if (!path_exists(pattern))
      fail_input("{}: no such file; check the path{}", pattern, hub_hint(pattern, HubRepository::dataset));
    return {pattern};
  }
  glob_t found{};
  const int result = ::glob(pattern.c_str(), 0, nullptr, &found);
  std::vector<std::string> files(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (result != 0 || files.empty()) fail_input("{}: no file matches this pattern", pattern);
  return files;
}

}  // namespace comera
