// Kinds of files that hold text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace comera::data {

enum class Format : std::uint8_t { text, tsv, csv, jsonl };

// By the name, without .gz or .zst behind it: .txt, .text, .tokens, .md, .rst; .tsv; .csv; .jsonl, .ndjson, .json. Any
// other name is an input error, that of a parquet file with the command that converts it.
Format format_of(const std::string& path);

// A value of --data-format: "automatic" (none: by the name), "text", "tsv", "csv", "jsonl".
std::optional<Format> format_named(const std::string& word);

// The line for a file that holds parquet.
[[noreturn]] void fail_parquet(const std::string& path);

}  // namespace comera::data
