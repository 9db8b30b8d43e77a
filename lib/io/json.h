// JSON out of files that nobody vouches for.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace comera::io {

using Json = nlohmann::ordered_json;  // keys stay in the order of the file

// An InputError opens with `file_name` when the text is no JSON, has a key twice in one object, or nests deeper than
// `max_depth`.
Json parse_json(std::string_view text, const std::string& file_name, int max_depth = 64);

// Two spaces of indentation and a newline at the end, as Hugging Face writes its files.
std::string json_text(const Json& json);

}  // namespace comera::io
