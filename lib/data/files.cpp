#include "lib/data/files.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lib/core/error.h"
#include "lib/core/file.h"
#include "lib/core/glob.h"
#include "lib/core/hash.h"
#include "lib/core/log.h"
#include "lib/core/regular_file.h"
#include "lib/core/units.h"

namespace comera::data {
namespace {

constexpr std::uint64_t takes_a_while = std::uint64_t{2} << 30;

void require_readable(const std::string& path) {
  if (is_folder(path)) fail_input("[data] {}: is a folder; name a file, or files by a glob such as '{}/*'", path, path);
  const int descriptor = open_regular(path);
  if (descriptor < 0) fail_input("[data] {}: cannot be read: {}", path, std::strerror(errno));
  ::close(descriptor);
}

}  // namespace

std::vector<std::string> resolve_files(const std::vector<std::string>& patterns) {
  std::vector<std::string> files;
  for (const std::string& pattern : patterns) {
    const std::vector<std::string> found = glob_files(pattern);
    files.insert(files.end(), found.begin(), found.end());
  }
  if (files.empty()) fail_input("[data] no data file is named; use --data FILE");
  for (const std::string& file : files) require_readable(file);
  return files;
}

std::string hash_files(const std::vector<std::string>& files) {
  std::uint64_t total = 0;
  for (const std::string& path : files) total += file_size(path);
  if (total >= takes_a_while) log_info("[data] reading {} to know the data again", format_bytes(total));
  Hasher hasher;
  for (const std::string& path : files) {
    hasher.update(fmt::format("{};", file_size(path)));
    read_blocks(path, [&](std::string_view block) { hasher.update(block); });
  }
  return hasher.hex();
}

}  // namespace comera::data
