#include "lib/core/files/free_space.h"

#include <sys/statvfs.h>

#include "lib/core/files/file.h"

namespace comera {

std::optional<std::uint64_t> free_space(const std::string& path) {
  std::string folder = path;
  while (!path_exists(folder) && parent_path(folder) != folder) folder = parent_path(folder);
  struct statvfs status {};
  if (::statvfs(folder.c_str(), &status) != 0 || status.f_blocks == 0) return std::nullopt;
  return static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize;
}

}  // namespace comera
