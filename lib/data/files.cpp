#include "lib/data/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/core/error.h"
#include "lib/core/glob.h"
#include "lib/core/hash.h"

namespace comera::data {
namespace {

constexpr std::size_t whole_file = std::size_t{64} << 20;
constexpr std::size_t end_bytes = std::size_t{4} << 20;

// A file descriptor with the failures said in words.
class File {
 public:
  explicit File(const std::string& path) : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct stat info {};
    if (fd_ < 0 || ::fstat(fd_, &info) != 0) fail_input("[data] {}: cannot be read: {}", path_, std::strerror(errno));
    if (S_ISDIR(info.st_mode)) {
      ::close(fd_);
      fail_input("[data] {}: is a folder; name a file, or files by a glob such as '{}/*'", path_, path_);
    }
    size = static_cast<std::size_t>(std::max<off_t>(info.st_size, 0));
  }
  ~File() { ::close(fd_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // At most `bytes` from `offset`.
  std::string read(std::size_t offset, std::size_t bytes) const {
    std::string data(bytes, '\0');
    std::size_t got = 0;
    while (got < bytes) {
      const ssize_t n = ::pread(fd_, data.data() + got, bytes - got, static_cast<off_t>(offset + got));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail_input("[data] {}: cannot be read: {}", path_, std::strerror(errno));
      if (n == 0) break;
      got += static_cast<std::size_t>(n);
    }
    data.resize(got);
    return data;
  }

  std::size_t size = 0;

 private:
  std::string path_;
  int fd_;
};

}  // namespace

std::vector<std::string> resolve_files(const std::vector<std::string>& patterns) {
  std::vector<std::string> files;
  for (const std::string& pattern : patterns) {
    const std::vector<std::string> found = glob_files(pattern);
    files.insert(files.end(), found.begin(), found.end());
  }
  if (files.empty()) fail_input("[data] no data file is named; use --data FILE");
  for (const std::string& file : files) File check(file);
  return files;
}

std::string hash_files(const std::vector<std::string>& files) {
  Hasher hasher;
  for (const std::string& path : files) {
    const File file(path);
    hasher.update(fmt::format("{};", file.size));
    if (file.size <= whole_file) {
      hasher.update(file.read(0, file.size));
    } else {
      hasher.update(file.read(0, end_bytes));
      hasher.update(file.read(file.size - end_bytes, end_bytes));
    }
  }
  return hasher.hex();
}

}  // namespace comera::data
