#include "lib/core/files/scratch_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "lib/core/error.h"
#include "lib/core/files/file.h"

namespace comera {
namespace {

std::string nearest_folder(const std::string& folder) {
  std::error_code error;
  if (folder.empty()) return std::filesystem::temp_directory_path(error).string();
  std::string place = std::filesystem::absolute(folder, error).string();
  while (!is_folder(place) && parent_path(place) != place) place = parent_path(place);
  return place;
}

// Opens a file without a name if the file system supports it. Otherwise unlinks the name at once.
int open_unnamed(const std::string& folder) {
  const int unnamed = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (unnamed >= 0) return unnamed;
  std::string name = join_path(folder, ".comera-XXXXXX");
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(name.c_str());
  return named;
}

}  // namespace

ScratchFile::ScratchFile(const std::string& folder)
    : folder_(nearest_folder(folder)), descriptor_(open_unnamed(folder_)) {
  if (descriptor_ < 0)
    fail_input("{}: cannot make a temporary file there: {}; choose a folder that you may write to", folder_,
               std::strerror(errno));
}

ScratchFile::~ScratchFile() { ::close(descriptor_); }

std::uint64_t ScratchFile::reserve(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (const auto found = free_.find(bytes); found != free_.end()) {
    const std::uint64_t at = found->second;
    free_.erase(found);
    return at;
  }
  const std::uint64_t at = end_;
  end_ += bytes;
  return at;
}

void ScratchFile::release(std::uint64_t at, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  free_.emplace(bytes, at);
}

void ScratchFile::write(std::uint64_t at, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0)
      fail_run("{}: cannot write a temporary file there: {}; free some space, or write to another disk", folder_,
               std::strerror(errno));
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    at += static_cast<std::uint64_t>(count);
  }
}

void ScratchFile::read(std::uint64_t at, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0)
      fail_run("{}: cannot read a temporary file back: {}", folder_,
               count == 0 ? "it is too short" : std::strerror(errno));
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    at += static_cast<std::uint64_t>(count);
  }
}

}  // namespace comera
