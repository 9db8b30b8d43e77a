#include "lib/core/files/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/files/file_changes.h"
#include "lib/core/files/temporary.h"
#include "lib/core/process.h"
#include "lib/core/terminal/log.h"

namespace comera {
namespace {

constexpr std::string_view lock_head = "comera lock: ";
constexpr const char* mark_name = ".comera.work";
constexpr std::string_view mark_text = "comera work: unfinished, the same command goes on with it\n";
constexpr int attempts = 100;
constexpr std::size_t longest_text = 1024;

std::string text_of(const Descriptor& file) {
  std::string text(longest_text, '\0');
  const ssize_t bytes = ::pread(file.value(), text.data(), text.size(), 0);
  text.resize(bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
  return text;
}

// Returns "process 12 on host since 2025-01-31T09:05:00Z". Retries, because the other process may not have written its
// line yet.
std::string holder_of(const Descriptor& file) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    if (const std::string text = text_of(file); text.starts_with(lock_head))
      return printable(text.substr(lock_head.size(), text.find('\n') - lock_head.size()));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return "another process";
}

[[noreturn]] void fail_held(const Folder& folder, const Descriptor& file) {
  fail_input("{}: {} writes to this folder; wait for it or end it, or name another folder", folder.path(),
             holder_of(file));
}

void require_own(const Folder& folder, const Descriptor& file) {
  struct stat status {};
  if (::fstat(file.value(), &status) != 0) fail_writing(folder.path_of(FolderLock::file_name), errno);
  if (!S_ISREG(status.st_mode) || status.st_nlink > 1 || (status.st_size > 0 && !text_of(file).starts_with(lock_head)))
    fail_input("{}: is no lock file of this program; remove it, or name another folder",
               folder.path_of(FolderLock::file_name));
}

void write_holder(const Folder& folder, const Descriptor& file) {
  const std::string text = fmt::format("{}process {} on {} since {}\n", lock_head, ::getpid(), host_name(), utc_time());
  count_change();
  if (::ftruncate(file.value(), 0) != 0 ||
      ::pwrite(file.value(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    fail_writing(folder.path_of(FolderLock::file_name), errno);
}

// Returns false if the owner removed the file meanwhile; the caller tries again.
bool take(const Folder& folder, Descriptor& file) {
  file = folder.open(FolderLock::file_name, O_RDWR | O_CREAT | O_NONBLOCK);
  if (!file && errno == ELOOP) fail_input("{}: is a link; remove it", folder.path_of(FolderLock::file_name));
  if (!file) fail_writing(folder.path_of(FolderLock::file_name), errno);
  require_own(folder, file);
  if (::flock(file.value(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) fail_held(folder, file);
    log_warning("{}: files cannot be locked here; see to it that no other process writes to this folder",
                folder.path());
  }
  return folder.has(FolderLock::file_name, file.value());
}

Folder open_or_make(const Folder& parent, const std::string& name) {
  const std::string path = parent.path_of(name);
  for (int attempt = 0; attempt < attempts; ++attempt) {
    if (parent.kind(name) == EntryKind::none) {
      Temporary making(parent, name, EntryKind::folder);
      write_file_atomic(join_path(making.path(), mark_name), mark_text);
      if (!making.become_target()) continue;
    }
    Folder folder = parent.folder(name);
    const Descriptor mark = folder.open(mark_name, O_RDONLY | O_NONBLOCK);
    if (mark && text_of(mark) == mark_text) return folder;
    if (parent.has(name, folder.descriptor()))
      fail_input(
          "{}: is needed for unfinished work, and what is there is none of this program's; move it, or name another "
          "output",
          path);
  }
  fail_run("{}: another process makes and removes this folder all the time; name another output", path);
}

}  // namespace

FolderLock::FolderLock(const Folder& folder) : folder_(folder) {
  for (int attempt = 0; attempt < attempts; ++attempt)
    if (take(folder_, file_)) {
      write_holder(folder_, file_);
      return;
    }
  fail_run("{}: other processes take and leave the lock all the time; name another folder", folder.path());
}

FolderLock::~FolderLock() {
  if (!file_ || !folder_.has(file_name, file_.value())) return;
  count_change();
  ::unlinkat(folder_.descriptor(), file_name, 0);
}

void refuse_locked(const Folder& folder) {
  const Descriptor file = folder.open(FolderLock::file_name, O_RDONLY | O_NONBLOCK);
  if (file && ::flock(file.value(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK) fail_held(folder, file);
}

WorkPlace::WorkPlace(const std::string& path)
    : path_(path),
      name_(base_name(path)),
      parent_(Folder::made(parent_path(path))),
      folder_(open_or_make(parent_, name_)) {
  lock_ = std::make_unique<FolderLock>(folder_);
  if (!parent_.has(name_, folder_.descriptor()))
    fail_input("{}: was removed while it was opened; run the command again", path_);
}

void WorkPlace::clear() {
  for (const std::string& name : folder_.names())
    if (name != mark_name && name != FolderLock::file_name) remove_at_once(folder_, name);
}

void WorkPlace::remove() {
  if (parent_.has(name_, folder_.descriptor())) remove_at_once(parent_, name_);
}

}  // namespace comera
