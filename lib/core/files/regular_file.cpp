#include "lib/core/files/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "lib/core/error.h"

namespace comera {
namespace {

constexpr std::size_t block_bytes = std::size_t{1} << 20;

const char* kind_of(mode_t mode) { return S_ISFIFO(mode) ? "a pipe" : S_ISSOCK(mode) ? "a socket" : "a device"; }

}  // namespace

int open_regular(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  struct stat status {};
  if (descriptor < 0 || ::fstat(descriptor, &status) != 0 || S_ISREG(status.st_mode) || S_ISDIR(status.st_mode))
    return descriptor;
  ::close(descriptor);
  fail_input("{}: is {}; give a regular file", path, kind_of(status.st_mode));
}

void read_blocks(const std::string& path, const std::function<void(std::string_view)>& take) {
  const Descriptor file(open_regular(path));
  if (!file) fail_input("{}: cannot read: {}", path, std::strerror(errno));
  read_blocks(file, path, take);
}

void read_blocks(const Descriptor& file, const std::string& path, const std::function<void(std::string_view)>& take) {
  std::vector<char> block(block_bytes);
  for (ssize_t got = 0; (got = ::read(file.value(), block.data(), block.size())) != 0;) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_input("{}: cannot read: {}", path, std::strerror(errno));
    take({block.data(), static_cast<std::size_t>(got)});
  }
}

PathKind kind_of(const std::string& path) {
  struct stat own {
  }, followed{};
  if (::lstat(path.c_str(), &own) != 0) return PathKind::none;
  if (::stat(path.c_str(), &followed) != 0) return PathKind::other;
  const bool link = S_ISLNK(own.st_mode);
  if (S_ISREG(followed.st_mode)) return link ? PathKind::linked_file : PathKind::file;
  if (S_ISDIR(followed.st_mode)) return link ? PathKind::linked_folder : PathKind::folder;
  return PathKind::other;
}

const char* name_of(PathKind kind) {
  static constexpr const char* names[] = {
      "nothing", "a file", "a link to a file", "a folder", "a link to a folder", "a pipe, a device or a broken link"};
  return names[static_cast<int>(kind)];
}

}  // namespace comera
