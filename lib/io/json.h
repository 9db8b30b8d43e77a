// Parses JSON from untrusted files.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace comera::io {

using Json = nlohmann::ordered_json;  // keeps the order of keys in the file

// InputError that starts with `file_name` if the text is no JSON, has a duplicate key in an object, or nests deeper
// than `max_depth`.
Json parse_json(std::string_view text, const std::string& file_name, int max_depth = 64);

// Formats with an indentation of two spaces and a final newline, as Hugging Face does.
std::string json_text(const Json& json);

}  // namespace comera::io
