// Glob patterns: * matches any sequence of characters (dots and slashes too), ? one character, [a-c] and [!a-c] one of
// a set. \ makes the next character literal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace comera {

bool glob_match(std::string_view pattern, std::string_view name);
bool is_glob(std::string_view text);  // contains * ? or [

// Returns the matching files, sorted. Here * does not match slashes, as in a shell. An existing path is returned as it
// is, even if its name contains pattern characters. InputError if nothing matches.
std::vector<std::string> glob_files(const std::string& pattern);

}  // namespace comera
