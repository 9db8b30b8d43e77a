// Methods of Python's str, on UTF-8: positions count characters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace comera::data::jinja {

// White space as str.isspace() has it. `at` is the first byte of a character.
bool is_python_blank(std::string_view text, std::size_t at);
std::string_view without_blanks_before(std::string_view text);
std::string_view without_blanks_behind(std::string_view text);
// The character at a place, for messages.
std::string_view character_at(std::string_view text, std::size_t at);

// str.strip(), lstrip(), rstrip(); `characters`: those to drop, none: blanks.
std::string stripped(std::string_view text, const std::optional<std::string>& characters, bool left, bool right);

// str.split(); without a separator it splits at runs of blanks. `most`: number of splits, -1: all.
std::vector<std::string> split(std::string_view text, const std::optional<std::string>& separator, std::int64_t most);
std::vector<std::string> split_from_end(std::string_view text, const std::optional<std::string>& separator,
                                        std::int64_t most);
std::vector<std::string> split_lines(std::string_view text, bool keep_ends);

// str.replace(); `most` < 0: every occurrence.
std::string replaced(std::string_view text, std::string_view old, std::string_view by, std::int64_t most);
std::int64_t count_of(std::string_view text, std::string_view part);

std::int64_t length_of(std::string_view text);                    // characters
std::vector<std::string_view> characters(std::string_view text);  // each alone

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalized(std::string_view text);  // str.capitalize()
std::string titled(std::string_view text);       // str.title()

}  // namespace comera::data::jinja
