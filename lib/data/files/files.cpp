#include "lib/data/files/files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/files/regular_file.h"
#include "lib/core/glob.h"
#include "lib/core/hash.h"
#include "lib/core/terminal/log.h"
#include "lib/core/terminal/stop.h"
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
  TaskProgress task("hashing the data", static_cast<std::int64_t>(total), TaskUnit::bytes);
  Hasher hasher;
  for (const std::string& path : files) {
    hasher.update(fmt::format("{};", file_size(path)));
    read_blocks(path, [&](std::string_view block) {
      check_stop();
      hasher.update(block);
      task.advance(std::ssize(block));
    });
  }
  return hasher.hex();
}

std::int64_t text_bytes(const std::string& path) {
  if (path.ends_with(".gz") || path.ends_with(".zst")) return 0;
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) ? status.st_size : 0;
}

Reading::Reading(const std::string& path) : task_("reading " + base_name(path), text_bytes(path), TaskUnit::bytes) {}

void Reading::at(const LineReader& lines) {
  check_stop();
  task_.done(static_cast<std::int64_t>(lines.offset()));
}

}  // namespace comera::data
