#include "lib/data/files.h"

#define XXH_INLINE_ALL
#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/core/error.h"

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

struct Hasher::State {
  XXH3_state_t xxh;
};

Hasher::Hasher() : state_(new State) { XXH3_128bits_reset(&state_->xxh); }
Hasher::~Hasher() { delete state_; }

Hasher& Hasher::add(std::string_view bytes) {
  const std::uint64_t size = bytes.size();
  XXH3_128bits_update(&state_->xxh, &size, sizeof size);
  XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size());
  return *this;
}

std::string Hasher::hex() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->xxh);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::vector<std::string> resolve_files(const std::vector<std::string>& patterns) {
  std::vector<std::string> files;
  for (const std::string& pattern : patterns) {
    if (pattern.find_first_of("*?[") == std::string::npos || ::access(pattern.c_str(), F_OK) == 0) {
      files.push_back(pattern);
      continue;
    }
    glob_t found{};
    const int status = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
    const std::size_t before = files.size();
    for (std::size_t i = 0; status == 0 && i < found.gl_pathc; ++i) files.emplace_back(found.gl_pathv[i]);
    ::globfree(&found);
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(before), files.end());
    if (files.size() == before) fail_input("[data] {}: no file matches this glob", pattern);
  }
  if (files.empty()) fail_input("[data] no data file is named; use --data FILE");
  for (const std::string& file : files) File check(file);
  return files;
}

std::string hash_files(const std::vector<std::string>& files) {
  Hasher hasher;
  for (const std::string& path : files) {
    const File file(path);
    if (file.size <= whole_file) {
      hasher.add(file.read(0, file.size));
    } else {
      hasher.add(std::to_string(file.size)).add(file.read(0, end_bytes)).add(file.read(file.size - end_bytes, end_bytes));
    }
  }
  return hasher.hex();
}

}  // namespace comera::data
