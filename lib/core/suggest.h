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

// `; did you mean <prefix><nearest>?`, or "" when none is near: to be appended to an error.
std::string did_you_mean(std::string_view word, std::span<const std::string> known, std::string_view prefix = "");

}  // namespace comera
