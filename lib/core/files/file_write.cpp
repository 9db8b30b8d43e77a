// Atomic writes, declared in lib/core/files/file.h.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/files/file_changes.h"
#include "lib/core/files/regular_file.h"
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

void sync_file(const Folder& folder, const std::string& name) {
  const Descriptor file = folder.open(name, O_RDONLY | O_NONBLOCK);
  if (!file) fail_writing(folder.path_of(name), errno);
  count_change();
  if (::fsync(file.value()) != 0 && errno != EINVAL) fail_writing(folder.path_of(name), errno);
}

void sync_tree(const Folder& folder) {
  for (const std::string& name : folder.names()) {
    if (folder.kind(name) == EntryKind::folder) {
      sync_tree(folder.folder(name));
    } else {
      sync_file(folder, name);
    }
  }
  folder.sync();
}

Folder folder_of(const std::string& path) {
  if (!is_folder(parent_path(path))) fail_writing(path, ENOENT);
  return Folder(parent_path(path));
}

Descriptor second_of(const Descriptor& file, const std::string& path) {
  Descriptor second(::fcntl(file.value(), F_DUPFD_CLOEXEC, 0));
  if (!second) fail_writing(path, errno);
  return second;
}

// Opens a log for appending. Rejects hard links: a write would also change the file's other names.
Descriptor open_log(const Folder& folder, const std::string& name, std::uint64_t keep) {
  const EntryKind kind = folder.kind(name);
  const std::string path = folder.path_of(name);
  if (kind == EntryKind::none && keep > 0)
    fail_input("{}: is missing, but {} bytes were written before; it was removed", path, keep);
  if (kind != EntryKind::none && kind != EntryKind::file)
    fail_input("{}: is no file of its own (a link, a folder or a device); remove it", path);
  Descriptor file = folder.open(name, O_WRONLY | O_CREAT);
  struct stat status {};
  if (!file || ::fstat(file.value(), &status) != 0) fail_writing(path, errno);
  if (status.st_nlink > 1)
    fail_input("{}: has other names (hard links), which would change with it; put a copy in its place", path);
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  if (bytes < keep) fail_input("{}: has {} bytes, but {} were written before; it was changed", path, bytes, keep);
  return file;
}

}  // namespace

void count_change() {
  if (++changes == fault_at()) ::_exit(137);
}

void fail_writing(const std::string& path, int error) {
  const char* text = std::strerror(error);
  if (error == ENOSPC || error == EDQUOT)
    fail_run("{}: cannot write: {}; free some space or write to another disk", path, text);
  if (error == EACCES || error == EPERM || error == EROFS)
    fail_input("{}: cannot write: {}; choose a folder that you may write to", path, text);
  if (error == ENOENT || error == ENOTDIR || error == EISDIR || error == ENAMETOOLONG)
    fail_input("{}: cannot write: {}; check the path", path, text);
  fail_run("{}: cannot write: {}", path, text);
}

std::uint64_t file_changes() { return changes; }

FileWriter::FileWriter(std::string path) : path_(std::move(path)) {
  count_change();
  descriptor_ = Descriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666));
  if (!descriptor_ && errno == ENXIO)
    fail_input("{}: is a pipe that no program reads; start its reader first, or name a file", path_);
  if (!descriptor_ || ::fcntl(descriptor_.value(), F_SETFL, 0) != 0) fail_writing(path_, errno);
  position_ = static_cast<std::uint64_t>(std::max<off_t>(0, ::lseek(descriptor_.value(), 0, SEEK_END)));
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
    const ssize_t written = ::write(descriptor_.value(), data, std::min(bytes, largest_write));
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
  if (::fsync(descriptor_.value()) != 0 && errno != EINVAL) fail_writing(path_, errno);
}

void FileWriter::close() {
  flush();
  if (::close(descriptor_.release()) != 0) fail_writing(path_, errno);
}

void FileWriter::truncate(std::uint64_t bytes) {
  flush();
  count_change();
  if (::ftruncate(descriptor_.value(), static_cast<off_t>(bytes)) != 0) fail_writing(path_, errno);
  position_ = static_cast<std::uint64_t>(::lseek(descriptor_.value(), static_cast<off_t>(bytes), SEEK_SET));
}

AtomicFile::AtomicFile(Temporary temporary)
    : temporary_(std::move(temporary)),
      writer_(second_of(temporary_.descriptor(), temporary_.target_path()), temporary_.target_path()) {}

AtomicFile::AtomicFile(const Folder& folder, const std::string& name)
    : AtomicFile(Temporary(folder, name, EntryKind::file)) {}

AtomicFile::AtomicFile(const std::string& path) : AtomicFile(folder_of(path), base_name(path)) {}

void AtomicFile::commit() {
  writer_.sync();
  writer_.close();
  temporary_.replace_target();
}

void write_file_atomic(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.writer().write(text);
  file.commit();
}

void write_file_atomic(const Folder& folder, const std::string& name, std::string_view text) {
  AtomicFile file(folder, name);
  file.writer().write(text);
  file.commit();
}

AtomicFolder::AtomicFolder(const std::string& path) : AtomicFolder(Folder::made(parent_path(path)), base_name(path)) {}

AtomicFolder::AtomicFolder(const Folder& in, const std::string& name)
    : temporary_(in, name, EntryKind::folder), path_(temporary_.path()), folder_(temporary_.folder()) {}

void AtomicFolder::commit() {
  sync_tree(folder_);
  temporary_.replace_target();
}

void AtomicFolder::commit_new() {
  sync_tree(folder_);
  if (!temporary_.become_target())
    fail_input("{}: was made by somebody else meanwhile; name another place, or remove it", temporary_.target_path());
}

AppendFile::AppendFile(const std::string& path) : writer_(path) {}

AppendFile::AppendFile(const Folder& folder, const std::string& name, std::uint64_t keep)
    : writer_(open_log(folder, name, keep), folder.path_of(name)) {
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
  if (path_exists(path)) Folder(parent_path(path)).remove(base_name(path));
}

namespace {

// Copies in blocks: the pages of a mapped file would count as memory of the process.
void copy_into(AtomicFile target, const Descriptor& source, const std::string& path) {
  read_blocks(source, path, [&](std::string_view block) { target.writer().write(block); });
  target.commit();
}

Descriptor open_source(const std::string& path) {
  Descriptor source(open_regular(path));
  if (!source) fail_reading(path, errno);
  return source;
}

}  // namespace

void copy_file(const std::string& from, const std::string& to) { copy_into(AtomicFile(to), open_source(from), from); }

void copy_file(const std::string& from, const Folder& to, const std::string& name) {
  copy_into(AtomicFile(to, name), open_source(from), from);
}

void copy_file(const Folder& from, const Folder& to, const std::string& name) {
  copy_into(AtomicFile(to, name), from.open_file(name), from.path_of(name));
}

}  // namespace comera
