#include "lib/core/files/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/files/file_changes.h"

namespace comera {
namespace {

constexpr int folder_flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

EntryKind kind_of(mode_t mode) {
  return S_ISREG(mode)   ? EntryKind::file
         : S_ISDIR(mode) ? EntryKind::folder
         : S_ISLNK(mode) ? EntryKind::link
                         : EntryKind::other;
}

}  // namespace

Folder::Folder(std::string path, Descriptor descriptor)
    : path_(std::move(path)), descriptor_(std::make_shared<const Descriptor>(std::move(descriptor))) {}

Folder::Folder(std::string path)
    : path_(std::move(path)), descriptor_(std::make_shared<const Descriptor>(::open(path_.c_str(), folder_flags))) {
  if (!*descriptor_) fail_writing(path_, errno);
}

Folder Folder::made(const std::string& path) {
  make_folders(path);
  return Folder(path);
}

std::string Folder::path_of(const std::string& name) const { return path_ == "." ? name : join_path(path_, name); }

EntryKind Folder::kind(const std::string& name) const {
  struct stat status {};
  return ::fstatat(descriptor(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 ? kind_of(status.st_mode)
                                                                                  : EntryKind::none;
}

std::vector<std::string> Folder::names() const {
  std::vector<std::string> names;
  Descriptor again(::openat(descriptor(), ".", folder_flags));
  DIR* stream = again ? ::fdopendir(again.value()) : nullptr;
  if (!stream) fail_reading(path_, errno);
  again.release();
  while (const dirent* entry = ::readdir(stream))
    if (const std::string name = entry->d_name; name != "." && name != "..") names.push_back(name);
  ::closedir(stream);
  std::sort(names.begin(), names.end());
  return names;
}

bool Folder::has(const std::string& name, int descriptor) const {
  struct stat named {};
  struct stat open {};
  return ::fstatat(this->descriptor(), name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         ::fstat(descriptor, &open) == 0 && named.st_dev == open.st_dev && named.st_ino == open.st_ino;
}

Descriptor Folder::open(const std::string& name, int flags) const {
  if (flags & (O_CREAT | O_TRUNC)) count_change();
  return Descriptor(::openat(descriptor(), name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, 0666));
}

Descriptor Folder::open_file(const std::string& name) const {
  Descriptor file = open(name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  struct stat status {};
  if (!file && errno == ELOOP) fail_input("{}: is a link; put the file itself in its place", path_of(name));
  if (!file || ::fstat(file.value(), &status) != 0) fail_reading(path_of(name), errno);
  if (!S_ISREG(status.st_mode)) fail_input("{}: is no regular file; put one in its place", path_of(name));
  return file;
}

Folder Folder::folder(const std::string& name) const {
  Descriptor inside = open(name, folder_flags);
  if (inside) return {path_of(name), std::move(inside)};
  const int error = errno;
  if (kind(name) == EntryKind::link) fail_input("{}: is a link; put the folder itself in its place", path_of(name));
  fail_writing(path_of(name), error);
}

Folder Folder::make_folder(const std::string& name) const {
  if (kind(name) == EntryKind::none) {
    count_change();
    if (::mkdirat(descriptor(), name.c_str(), 0777) != 0 && errno != EEXIST) fail_writing(path_of(name), errno);
  }
  return folder(name);
}

void Folder::remove(const std::string& name) const {
  const EntryKind kind = this->kind(name);
  if (kind == EntryKind::none) return;
  if (kind == EntryKind::folder) {
    Descriptor there = open(name, folder_flags);
    if (!there && errno == ENOENT) return;
    if (!there) fail_writing(path_of(name), errno);
    const Folder inside(path_of(name), std::move(there));
    for (const std::string& entry : inside.names()) inside.remove(entry);
  }
  count_change();
  if (::unlinkat(descriptor(), name.c_str(), kind == EntryKind::folder ? AT_REMOVEDIR : 0) != 0 && errno != ENOENT)
    fail_writing(path_of(name), errno);
}

void Folder::rename(const std::string& from, const Folder& to_folder, const std::string& to) const {
  count_change();
  if (::renameat(descriptor(), from.c_str(), to_folder.descriptor(), to.c_str()) != 0)
    fail_writing(to_folder.path_of(to), errno);
}

void Folder::sync() const {
  count_change();
  if (::fsync(descriptor()) != 0 && errno != EINVAL)
    fail_writing(path_, errno);  // some file systems cannot fsync a folder and return EINVAL
}

}  // namespace comera
