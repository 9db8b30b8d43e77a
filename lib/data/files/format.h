// Formats of files that contain text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace comera::data {

enum class Format : std::uint8_t { text, tsv, csv, jsonl };

// Determines the format by the name without a final .gz or .zst: .txt, .text, .tokens, .md, .rst; .tsv; .csv; .jsonl,
// .ndjson, .json. Any other name is an input error. For a parquet file the error gives the command that converts it.
Format format_of(const std::string& path);

// Parses a value of --data-format: "text", "tsv", "csv", "jsonl". "automatic" gives none: the name determines the
// format.
std::optional<Format> format_named(const std::string& word);

// Fails with the error message for a parquet file.
[[noreturn]] void fail_parquet(const std::string& path);

}  // namespace comera::data
