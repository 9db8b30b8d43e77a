#include "lib/core/files/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/files/file_changes.h"
#include "lib/core/files/temporary.h"
#include "lib/core/glob.h"
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

[[noreturn]] void fail_held(const std::string& folder, const Descriptor& file) {
  fail_input("{}: {} writes to this folder; wait for it or end it, or name another folder", folder, holder_of(file));
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
    if (errno == EWOULDBLOCK) fail_held(folder.path(), file);
    log_warning("{}: files cannot be locked here; see to it that no other process writes to this folder",
                folder.path());
  }
  return folder.has(FolderLock::file_name, file.value());
}

// The lock files that this process holds.
struct Held {
  std::mutex mutex;
  std::set<std::pair<dev_t, ino_t>> files;
};
Held& held() {
  static auto* const list = new Held;  // never destroyed: locks may be static
  return *list;
}
std::pair<dev_t, ino_t> identity_of(const Descriptor& file) {
  struct stat status {};
  if (!file || ::fstat(file.value(), &status) != 0) return {};
  return {status.st_dev, status.st_ino};
}
bool is_held_here(const Descriptor& file) {
  const std::lock_guard lock(held().mutex);
  return held().files.contains(identity_of(file));
}

bool is_locked(const Descriptor& file) { return ::flock(file.value(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK; }

// In a folder of many users (/tmp) anybody may make a lock file; only one of this user or of the folder's counts.
bool is_trusted(const Descriptor& folder, const Descriptor& file) {
  struct stat of_folder {
  }, of_file{};
  if (::fstat(folder.value(), &of_folder) != 0 || ::fstat(file.value(), &of_file) != 0) return false;
  return of_file.st_uid == ::geteuid() || of_file.st_uid == of_folder.st_uid;
}

Descriptor open_at(const Descriptor& folder, const char* name, int flags) {
  return Descriptor(::openat(folder.value(), name, flags | O_CLOEXEC | O_NOFOLLOW));
}

// Goes up to the root, or to a folder that this user may not search.
void refuse_from(Descriptor folder) {
  while (folder) {
    const Descriptor file = open_at(folder, FolderLock::file_name, O_RDONLY | O_NONBLOCK);
    if (file && is_trusted(folder, file) && !is_held_here(file) && is_locked(file)) {
      std::error_code error;
      fail_held(std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", folder.value()), error).string(), file);
    }
    Descriptor above = open_at(folder, "..", O_PATH | O_DIRECTORY);
    if (!above || identity_of(above) == identity_of(folder)) return;
    folder = std::move(above);
  }
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
      const std::lock_guard lock(held().mutex);
      held().files.insert(identity_of(file_));
      return;
    }
  fail_run("{}: other processes take and leave the lock all the time; name another folder", folder.path());
}

FolderLock::~FolderLock() {
  if (file_) {
    const std::lock_guard lock(held().mutex);
    held().files.erase(identity_of(file_));
  }
  if (!file_ || !folder_.has(file_name, file_.value())) return;
  count_change();
  ::unlinkat(folder_.descriptor(), file_name, 0);
}

void refuse_locked(const Folder& folder) {
  const Descriptor file = folder.open(FolderLock::file_name, O_RDONLY | O_NONBLOCK);
  if (file && is_locked(file)) fail_held(folder.path(), file);
}

void refuse_locked_above(const Folder& folder) {
  refuse_from(Descriptor(::openat(folder.descriptor(), ".", O_PATH | O_DIRECTORY | O_CLOEXEC)));
}

void refuse_locked_above(const std::string& path) {
  std::string folder = path;
  while (!is_folder(folder) && parent_path(folder) != folder) folder = parent_path(folder);
  refuse_from(Descriptor(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)));
}

WorkPlace::WorkPlace(const std::string& path, std::vector<std::string> own)
    : own_(std::move(own)),
      path_(path),
      name_(base_name(path)),
      parent_(Folder::made(parent_path(path))),
      folder_(open_or_make(parent_, name_)) {
  lock_ = std::make_unique<FolderLock>(folder_);
  if (!parent_.has(name_, folder_.descriptor()))
    fail_input("{}: was removed while it was opened; run the command again", path_);
  refuse_foreign();
}

bool WorkPlace::is_own(const Folder& folder, const std::string& name, const std::string& relative) const {
  if (is_temporary(name)) return true;
  const EntryKind kind = folder.kind(name);
  if (kind == EntryKind::file && (name == mark_name || name == FolderLock::file_name)) return true;
  if (kind != EntryKind::file && kind != EntryKind::folder) return false;
  const std::string named = kind == EntryKind::folder ? relative + "/" : relative;
  return std::any_of(own_.begin(), own_.end(), [&](const std::string& pattern) { return glob_match(pattern, named); });
}

std::string WorkPlace::foreign(const Folder& folder, const std::string& below) const {
  for (const std::string& name : folder.names()) {
    std::string relative = join_path(below, name);
    if (!is_own(folder, name, relative)) return relative;
    if (is_temporary(name) || folder.kind(name) != EntryKind::folder) continue;
    if (std::string inside = foreign(folder.folder(name), relative); !inside.empty()) return inside;
  }
  return "";
}

void WorkPlace::refuse_foreign() const {
  if (const std::string name = foreign(folder_); !name.empty())
    fail_input(
        "{}: is no file of the unfinished work in this folder, which is removed with it; move it to another place, "
        "then run the command again",
        printable(join_path(path_, name)));
}

void WorkPlace::clear() {
  refuse_foreign();
  for (const std::string& name : folder_.names())
    if (name != mark_name && name != FolderLock::file_name) remove_at_once(folder_, name);
}

void WorkPlace::remove_own(const Folder& folder, const std::string& below) const {
  for (const std::string& name : folder.names()) {
    const std::string relative = join_path(below, name);
    if (!is_own(folder, name, relative)) continue;
    if (!is_temporary(name) && folder.kind(name) == EntryKind::folder) {
      const Folder inside = folder.folder(name);
      remove_own(inside, relative);
      if (!inside.names().empty()) continue;
    }
    folder.remove(name);
  }
}

void WorkPlace::remove() {
  if (!parent_.has(name_, folder_.descriptor())) return;
  const std::string name = foreign(folder_);
  if (name.empty()) return remove_at_once(parent_, name_);
  remove_own(folder_, "");
  log_warning("{}: is no file of the work that ended here; it stays, and so does its folder",
              printable(join_path(path_, name)));
}

}  // namespace comera
