#include "lib/core/files/free_space.h"

#include <filesystem>

#include "lib/core/files/file.h"

namespace comera {

std::optional<std::uint64_t> free_space(const std::string& path) {
  std::string folder = path;
  while (!path_exists(folder) && parent_path(folder) != folder) folder = parent_path(folder);
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(folder, error);
  return error || space.capacity == 0 ? std::nullopt : std::optional<std::uint64_t>(space.available);
}

}  // namespace comera
