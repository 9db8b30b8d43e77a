#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "lib/core/error.h"
#include "lib/core/file.h"
#include "lib/core/units.h"

namespace comera {
namespace {

constexpr std::size_t buffer_bytes = std::size_t{1} << 20;
constexpr std::size_t largest_write = std::size_t{1} << 26;

std::atomic<std::uint64_t> changes{0};

std::uint64_t fault_at() {
  const char* text = std::getenv("COMERA_FAULT_AT");
  return text ? static_cast<std::uint64_t>(parse_integer(text).value_or(0)) : 0;
}

// Called before every change to the file system.
void count_change() {
  if (++changes == fault_at()) ::_exit(137);
}

[[noreturn]] void fail_writing(const std::string& path, int error) {
  const char* text = std::strerror(error);
  if (error == ENOSPC || error == EDQUOT) fail_run("{}: cannot write: {}; free some space or write to another disk", path, text);
  if (error == EACCES || error == EPERM || error == EROFS) fail_input("{}: cannot write: {}; choose a folder that you may write to", path, text);
  if (error == ENOENT || error == ENOTDIR || error == EISDIR || error == ENAMETOOLONG) fail_input("{}: cannot write: {}; check the path", path, text);
  fail_run("{}: cannot write: {}", path, text);
}

void sync_path(const std::string& path, int flags) {
  const int descriptor = ::open(path.c_str(), flags | O_CLOEXEC);
  if (descriptor < 0) fail_writing(path, errno);
  count_change();
  const int result = ::fsync(descriptor);
  const int error = errno;
  ::close(descriptor);
  if (result != 0 && error != EINVAL) fail_writing(path, error);  // some file systems cannot sync a folder
}

void sync_tree(const std::string& folder) {
  for (const std::string& name : list_folder(folder)) {
    const std::string path = join_path(folder, name);
    if (is_folder(path)) {
      sync_tree(path);
    } else {
      sync_path(path, O_RDONLY);
    }
  }
  sync_path(folder, O_RDONLY | O_DIRECTORY);
}

void remove_file(const std::string& path) {
  count_change();
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) fail_writing(path, errno);
}

// The path of a file that holds what was written to it before.
std::string checked_length(std::string path, std::uint64_t keep) {
  const std::uint64_t bytes = path_exists(path) ? file_size(path) : 0;
  if (bytes < keep) fail_input("{}: has {} bytes, but {} were written before; it was changed", path, bytes, keep);
  return path;
}

// Two folders change places in one instant, where the file system can; else with a moment in which `to` is missing but `from` complete.
void exchange_folders(const std::string& from, const std::string& to) {
  count_change();
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) return;
  if (errno != EINVAL && errno != ENOSYS) fail_writing(to, errno);
  const std::string old = to + ".old";
  remove_tree(old);
  rename_path(to, old);
  rename_path(from, to);
  rename_path(old, from);
}

}  // namespace

std::uint64_t file_changes() { return changes; }

FileWriter::FileWriter(std::string path, Mode mode) : path_(std::move(path)) {
  count_change();
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | (mode == Mode::create ? O_TRUNC : 0), 0666);
  if (descriptor_ < 0) fail_writing(path_, errno);
  if (mode == Mode::append) position_ = static_cast<std::uint64_t>(::lseek(descriptor_, 0, SEEK_END));
}

FileWriter::~FileWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void FileWriter::write(const void* data, std::size_t bytes) {
  position_ += bytes;
  if (buffer_.size() + bytes > buffer_bytes) flush();
  if (bytes > buffer_bytes) return write_now(static_cast<const char*>(data), bytes);
  buffer_.append(static_cast<const char*>(data), bytes);
}

void FileWriter::write_now(const char* data, std::size_t bytes) {
  while (bytes > 0) {
    count_change();
    const ssize_t written = ::write(descriptor_, data, std::min(bytes, largest_write));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_writing(path_, errno);
    data += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void FileWriter::flush() {
  write_now(buffer_.data(), buffer_.size());
  buffer_.clear();
}

void FileWriter::sync() {
  flush();
  count_change();
  if (::fsync(descriptor_) != 0 && errno != EINVAL) fail_writing(path_, errno);
}

void FileWriter::close() {
  flush();
  if (::close(std::exchange(descriptor_, -1)) != 0) fail_writing(path_, errno);
}

void FileWriter::truncate(std::uint64_t bytes) {
  flush();
  count_change();
  if (::ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) fail_writing(path_, errno);
  position_ = static_cast<std::uint64_t>(::lseek(descriptor_, static_cast<off_t>(bytes), SEEK_SET));
}

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)), writer_(path_ + ".tmp") {}

AtomicFile::~AtomicFile() {
  if (!committed_) ::unlink(writer_.path().c_str());
}

void AtomicFile::commit() {
  writer_.sync();
  writer_.close();
  rename_path(writer_.path(), path_);
  committed_ = true;
  sync_folder(parent_path(path_));
}

void write_file_atomic(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.writer().write(text);
  file.commit();
}

AtomicFolder::AtomicFolder(std::string path) : path_(std::move(path)) {
  while (path_.size() > 1 && path_.ends_with('/')) path_.pop_back();
  temporary_ = path_ + ".tmp";
  remove_tree(temporary_);
  make_folders(temporary_);
}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (!committed_) std::filesystem::remove_all(temporary_, ignored);
}

void AtomicFolder::commit() {
  sync_tree(temporary_);
  const bool replace = path_exists(path_);
  if (replace) {
    exchange_folders(temporary_, path_);
  } else {
    rename_path(temporary_, path_);
  }
  committed_ = true;
  sync_folder(parent_path(path_));
  if (replace) remove_tree(temporary_);
}

AppendFile::AppendFile(std::string path) : writer_(std::move(path), FileWriter::Mode::append) {}

AppendFile::AppendFile(std::string path, std::uint64_t keep) : writer_(checked_length(std::move(path), keep), FileWriter::Mode::append) {
  writer_.truncate(keep);
}

void AppendFile::append(std::string_view text) {
  writer_.write(text);
  writer_.flush();
}

void make_folders(const std::string& path) {
  if (is_folder(path)) return;
  const std::string parent = parent_path(path);
  if (parent != path) make_folders(parent);
  count_change();
  if (::mkdir(path.c_str(), 0777) != 0 && !(errno == EEXIST && is_folder(path))) fail_writing(path, errno);
}

void remove_tree(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return;
  if (!S_ISDIR(status.st_mode)) return remove_file(path);
  for (const std::string& name : list_folder(path)) remove_tree(join_path(path, name));
  count_change();
  if (::rmdir(path.c_str()) != 0 && errno != ENOENT) fail_writing(path, errno);
}

void rename_path(const std::string& from, const std::string& to) {
  count_change();
  if (std::rename(from.c_str(), to.c_str()) != 0) fail_writing(to, errno);
}

void sync_folder(const std::string& path) { sync_path(path, O_RDONLY | O_DIRECTORY); }

// In blocks: the pages of a mapped file would count as memory of the process.
void copy_file(const std::string& from, const std::string& to) {
  std::ifstream source(from, std::ios::binary);
  if (!source) fail_input("{}: cannot read: {}", from, std::strerror(errno));
  AtomicFile target(to);
  std::vector<char> block(buffer_bytes);
  while (source.read(block.data(), static_cast<std::streamsize>(block.size())), source.gcount() > 0)
    target.writer().write(block.data(), static_cast<std::size_t>(source.gcount()));
  if (source.bad()) fail_run("{}: cannot read: {}", from, std::strerror(errno));
  target.commit();
}

}  // namespace comera
