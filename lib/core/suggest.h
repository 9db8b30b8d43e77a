// "Did you mean": the nearest known word to a misspelt one.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace comera {

// Levenshtein distance where swapping two neighbours counts as one edit.
int edit_distance(std::string_view a, std::string_view b);

// The nearest of `known`, or "" when none is near enough to be meant.
std::string nearest_word(std::string_view word, std::span<const std::string> known);

// A word that may be typed, and what it means here: a name itself, or a synonym of one.
struct KnownWord {
  std::string word, meaning;
};
// The same where synonyms are known; of a synonym of several all are named: "; did you mean --steps or --epochs?".
std::string did_you_mean(std::string_view word, std::span<const KnownWord> known, std::string_view prefix = "");

// `; did you mean <prefix><nearest>?`, or "" when none is near: to be appended to an error.
std::string did_you_mean(std::string_view word, std::span<const std::string> known, std::string_view prefix = "");

}  // namespace comera
