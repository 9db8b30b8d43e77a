// Reads JSON files with a size limit for each kind of file. FORMAT.md lists these limits for users.
#pragma once

#include <cstdint>
#include <string>

#include "lib/io/json.h"

namespace comera::io {

constexpr std::uint64_t largest_config = std::uint64_t{16} << 20;            // config.json
constexpr std::uint64_t largest_tokenizer_config = std::uint64_t{16} << 20;  // tokenizer_config.json
constexpr std::uint64_t largest_state = std::uint64_t{64} << 20;             // state.json of a run
constexpr std::uint64_t largest_recipe = std::uint64_t{16} << 20;            // recipe.toml of a run
constexpr std::uint64_t largest_report = std::uint64_t{64} << 20;            // report.json
constexpr std::uint64_t largest_plan = std::uint64_t{64} << 20;              // plans of tensorize

// InputError if the file is larger than `largest`, or as parse_json().
Json read_json(const std::string& path, std::uint64_t largest);

}  // namespace comera::io
