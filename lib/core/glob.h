// Patterns: * any run of characters (dots and slashes too), ? one, [a-c] [!a-c] one of a set, \ takes the next one
// literally.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace comera {

bool glob_match(std::string_view pattern, std::string_view name);
bool is_glob(std::string_view text);  // holds * ? or [

// Files that match, sorted; here * stops at slashes, as in a shell. A path that exists is itself, whatever it is
// called. Nothing found is an InputError.
std::vector<std::string> glob_files(const std::string& pattern);

}  // namespace comera
