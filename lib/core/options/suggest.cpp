#include "lib/core/options/suggest.h"

#include <fmt/core.h>

#include <algorithm>
#include <climits>
#include <utility>
#include <vector>

namespace comera {
namespace {

// Lowers ASCII letters; other letters stay.
std::string lower_case(std::string_view word) {
  std::string small(word);
  for (char& c : small)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return small;
}

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

std::string nearest_word(std::string_view word, std::span<const std::string> known) {
  if (word.size() > 64) return "";
  std::string nearest;
  const std::string small = lower_case(word);
  // A third of the letters may be wrong, and at least one. Of words that differ in case alone, the nearer one wins.
  std::pair least(std::max(1, static_cast<int>(word.size()) / 3), INT_MAX);
  for (const std::string& candidate : known) {
    const std::pair distance(edit_distance(small, lower_case(candidate)), edit_distance(word, candidate));
    if (distance >= least) continue;
    least = distance;
    nearest = candidate;
  }
  if (!nearest.empty() || word.size() < 3) return nearest;
  for (const std::string& candidate : known)
    if (const std::string other = lower_case(candidate); other.starts_with(small) || other.ends_with(small))
      return candidate;
  return "";
}

std::string did_you_mean(std::string_view word, std::span<const std::string> known, std::string_view prefix) {
  const std::string nearest = nearest_word(word, known);
  return nearest.empty() ? "" : fmt::format("; did you mean {}{}?", prefix, nearest);
}

std::string did_you_mean(std::string_view word, std::span<const KnownWord> known, std::string_view prefix) {
  std::vector<std::string> words;
  words.reserve(known.size());
  for (const KnownWord& one : known) words.push_back(one.word);
  const std::string nearest = nearest_word(word, words);
  if (nearest.empty()) return "";
  std::vector<std::string> meanings;
  for (const KnownWord& one : known)
    if (one.word == nearest && std::find(meanings.begin(), meanings.end(), one.meaning) == meanings.end())
      meanings.push_back(one.meaning);
  std::string text;
  for (const std::string& meaning : meanings)
    text += fmt::format("{}{}{}", text.empty() ? "" : " or ", prefix, meaning);
  return fmt::format("; did you mean {}?", text);
}

}  // namespace comera
