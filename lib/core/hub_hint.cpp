#include "lib/core/hub_hint.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "lib/core/files/file.h"

namespace comera {
namespace {

bool is_name(std::string_view text) {
  return !text.empty() && text[0] != '.' && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  });
}

bool ends_like_a_file(std::string_view name) {
  static constexpr std::string_view endings[] = {".txt",  ".csv",   ".tsv",  ".json",        ".jsonl",
                                                 ".toml", ".gz",    ".zst",  ".npy",         ".bin",
                                                 ".onnx", ".model", ".gguf", ".safetensors", ".parquet"};
  return std::any_of(std::begin(endings), std::end(endings),
                     [&](std::string_view ending) { return name.ends_with(ending); });
}

}  // namespace

std::string hub_hint(const std::string& path, HubRepository repository) {
  const std::size_t slash = path.find('/');
  if (slash == std::string::npos || path_exists(path)) return "";
  const std::string owner = path.substr(0, slash), name = path.substr(slash + 1);
  if (!is_name(owner) || !is_name(name) || is_folder(owner) || ends_like_a_file(name)) return "";
  return fmt::format("; to fetch it from the Hugging Face hub: hf download {}{} --local-dir {}", path,
                     repository == HubRepository::dataset ? " --repo-type dataset" : "", name);
}

}  // namespace comera
