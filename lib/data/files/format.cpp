#include "lib/data/files/format.h"

#include <algorithm>
#include <string_view>

#include "lib/core/error.h"

namespace comera::data {
namespace {

struct Suffix {
  std::string_view name;
  Format format;
};
constexpr Suffix suffixes[] = {{".txt", Format::text},  {".text", Format::text},   {".tokens", Format::text},
                               {".md", Format::text},   {".rst", Format::text},    {".tsv", Format::tsv},
                               {".csv", Format::csv},   {".jsonl", Format::jsonl}, {".ndjson", Format::jsonl},
                               {".json", Format::jsonl}};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : static_cast<char>(c);
  });
  return text;
}

}  // namespace

Format format_of(const std::string& path) {
  const std::string whole = lower(path);
  std::string_view name = whole;
  for (const std::string_view packed : {".gz", ".zst"})
    if (name.ends_with(packed)) {
      name.remove_suffix(packed.size());
      break;
    }
  for (const Suffix& suffix : suffixes)
    if (name.ends_with(suffix.name)) return suffix.format;
  if (name.ends_with(".parquet") || name.ends_with(".pq")) fail_parquet(path);
  fail_input(
      "[data] {}: the name does not tell what the file holds; known are .txt, .csv, .tsv and .jsonl (each also with "
      ".gz or .zst behind it); rename "
      "it, or "
      "give --data-format text, csv, tsv or jsonl",
      path);
}

std::optional<Format> format_named(const std::string& word) {
  if (word == "text") return Format::text;
  if (word == "tsv") return Format::tsv;
  if (word == "csv") return Format::csv;
  if (word == "jsonl") return Format::jsonl;
  return std::nullopt;
}

void fail_parquet(const std::string& path) {
  fail_input(
      "[data] {}: parquet is not read; convert it (pip install pandas pyarrow): python3 -c \"import pandas; "
      "pandas.read_parquet('{}').to_csv('data.csv', index=False)\"",
      path, path);
}

}  // namespace comera::data
