// "Did you mean": finds the known word that is nearest to a misspelt one.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace comera {

// Levenshtein distance in which a swap of two neighbours counts as one edit.
int edit_distance(std::string_view a, std::string_view b);

// The nearest of `known` in any letter case, or "" if none is near enough.
std::string nearest_word(std::string_view word, std::span<const std::string> known);

// A valid word and its meaning: a name itself, or a synonym of a name.
struct KnownWord {
  std::string word, meaning;
};
// The same with synonyms. If several names share a synonym, it lists all of them: "; did you mean --steps or
// --epochs?".
std::string did_you_mean(std::string_view word, std::span<const KnownWord> known, std::string_view prefix = "");

// Returns `; did you mean <prefix><nearest>?`, or "" if none is near. Callers append it to an error.
std::string did_you_mean(std::string_view word, std::span<const std::string> known, std::string_view prefix = "");

}  // namespace comera
