#include "lib/core/files/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "lib/core/error.h"
#include "lib/core/files/file_changes.h"
#include "lib/core/files/mapped_ranges.h"
#include "lib/core/files/regular_file.h"

namespace comera {
namespace {

struct stat status_of(int descriptor, const std::string& path) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) fail_reading(path, errno);
  if (S_ISDIR(status.st_mode)) fail_reading(path, EISDIR);
  return status;
}

std::string text_of(const Descriptor& file, const std::string& path, std::uint64_t limit) {
  const struct stat status = status_of(file.value(), path);
  std::string text;
  text.reserve(std::min<std::uint64_t>(static_cast<std::uint64_t>(status.st_size), limit));
  char chunk[1 << 16];
  for (ssize_t got = 0; (got = ::read(file.value(), chunk, sizeof chunk)) != 0;) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_reading(path, errno);
    if (text.size() + static_cast<std::size_t>(got) > limit)
      fail_input("{}: larger than the {} bytes that such a file may have", path, limit);
    text.append(chunk, static_cast<std::size_t>(got));
  }
  return text;
}

}  // namespace

void fail_reading(const std::string& path, int error) {
  const char* advice = error == ENOENT   ? "check the path"
                       : error == EACCES ? "check its permissions"
                       : error == EISDIR ? "give a file"
                                         : "";
  fail_input("{}: cannot read: {}{}{}", path, std::strerror(error), *advice ? "; " : "", advice);
}

std::string read_file(const std::string& path, std::uint64_t limit) {
  const Descriptor file{open_regular(path)};
  if (!file) fail_reading(path, errno);
  return text_of(file, path, limit);
}

std::string read_file(const Folder& folder, const std::string& name, std::uint64_t limit) {
  return text_of(folder.open_file(name), folder.path_of(name), limit);
}

bool path_exists(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0;
}

bool is_folder(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

bool is_empty_folder(const std::string& path) { return is_folder(path) && list_folder(path).empty(); }

std::uint64_t file_size(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) fail_reading(path, errno);
  return static_cast<std::uint64_t>(status.st_size);
}

std::vector<std::string> list_folder(const std::string& path) {
  std::error_code error;
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error))
    names.push_back(entry->path().filename().string());
  if (error) fail_reading(path, error.value());
  std::sort(names.begin(), names.end());
  return names;
}

std::string join_path(std::string_view folder, std::string_view name) {
  if (folder.empty()) return std::string(name);
  return fmt::format("{}{}{}", folder, folder.ends_with('/') ? "" : "/", name);
}

std::string base_name(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return std::string(path.substr(path.rfind('/') + 1));
}

std::string parent_path(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return slash == 0 ? "/" : std::string(path.substr(0, slash));
}

bool is_inside(std::string_view name) {
  if (name.empty() || name.front() == '/' || name.find('\0') != std::string_view::npos) return false;
  for (std::size_t start = 0, end = 0; end != std::string_view::npos; start = end + 1) {
    end = name.find('/', start);
    const std::string_view part = name.substr(start, end == std::string_view::npos ? end : end - start);
    if (part.empty() || part == "." || part == "..") return false;
  }
  return true;
}

MappedFile::MappedFile(const std::string& path) {
  const Descriptor file{open_regular(path)};
  if (!file) fail_reading(path, errno);
  size_ = static_cast<std::size_t>(status_of(file.value(), path).st_size);
  if (size_ == 0) return;  // mmap rejects empty files
  data_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.value(), 0);
  if (data_ == MAP_FAILED) {
    data_ = nullptr;
    fail_reading(path, errno);
  }
  add_mapped_range(data_, size_, path);
}

void MappedFile::forget(std::span<const std::byte> part) const {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<std::uintptr_t>(part.data()) + page - 1) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(part.data() + part.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!data_) return;
  remove_mapped_range(data_);
  ::munmap(data_, size_);
}

}  // namespace comera
