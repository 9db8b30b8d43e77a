#include "lib/core/files/temporary.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <vector>

#include "lib/core/error.h"
#include "lib/core/files/file_changes.h"
#include "lib/core/files/folder_lock.h"
#include "lib/core/hash.h"

namespace comera {
namespace {

constexpr std::string_view suffix = ".comera";
constexpr std::size_t digits = 16;
constexpr std::size_t tail = 2 * digits + 1 + suffix.size();  // length of RANDOM-CHECK.comera
// Longest part of the target's name in a temporary name; a file name has at most 255 bytes.
constexpr std::size_t longest_target = 200;
constexpr int attempts = 100;
constexpr std::size_t longest_text = 4096;

std::string prefix_of(const std::string& target) { return fmt::format(".{}.", target.substr(0, longest_target)); }

std::string check_of(std::string_view before) {
  return hash_text(fmt::format("unfinished {}", before)).substr(0, digits);
}

std::string new_name(const std::string& target) {
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != static_cast<ssize_t>(sizeof random))
    fail_run("{}: the system gives no random numbers", target);
  const std::string before = fmt::format("{}{:016x}", prefix_of(target), random);
  return fmt::format("{}-{}{}", before, check_of(before), suffix);
}

// Also true if the file system has no locks. Then only the name protects the file, and no other process removes it.
bool lock_or_unknown(const Descriptor& descriptor) {
  return ::flock(descriptor.value(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

Descriptor make(const Folder& in, const std::string& name, EntryKind kind) {
  if (kind == EntryKind::file) return in.open(name, O_RDWR | O_CREAT | O_EXCL);
  count_change();
  if (::mkdirat(in.descriptor(), name.c_str(), 0777) != 0) return {};
  return in.open(name, O_RDONLY | O_DIRECTORY);
}

// True if the process that made it has ended: its lock is free.
bool is_left(const Folder& in, const std::string& name, const Descriptor& entry) {
  return entry && ::flock(entry.value(), LOCK_EX | LOCK_NB) == 0 && in.has(name, entry.value());
}

void remove_if_left(const Folder& in, const std::string& name) {
  const EntryKind kind = in.kind(name);
  if (kind != EntryKind::file && kind != EntryKind::folder) return;
  const Descriptor entry = in.open(name, kind == EntryKind::folder ? O_RDONLY | O_DIRECTORY : O_RDWR | O_NONBLOCK);
  if (!is_left(in, name, entry)) return;
  try {
    in.remove(name);
  } catch (const std::runtime_error&) {  // no permission to remove it; it does no harm
  }
}

std::vector<std::string> names_of(const Folder& in, const std::string& target) {
  std::vector<std::string> names = in.names();
  const std::string prefix = prefix_of(target);
  std::erase_if(names, [&](const std::string& name) {
    return name.size() != prefix.size() + tail || !name.starts_with(prefix) ||
           !is_temporary(name);  // excludes those of "target.onnx"
  });
  return names;
}

// Temporaries that this process has not finished. Never destroyed: another thread may read the list while the process
// ends.
struct Unfinished {
  std::mutex mutex;
  std::vector<std::pair<Folder, std::string>> all;
};
Unfinished& unfinished() {
  static auto* const list = new Unfinished;
  return *list;
}
void remember(const Folder& in, const std::string& name) {
  const std::lock_guard lock(unfinished().mutex);
  unfinished().all.emplace_back(in, name);
}
void forget(const std::string& name) {
  const std::lock_guard lock(unfinished().mutex);
  std::erase_if(unfinished().all, [&](const auto& one) { return one.second == name; });
}

}  // namespace

bool is_temporary(const std::string& name) {
  if (name.size() < tail + 2 || name.front() != '.' || !name.ends_with(suffix)) return false;
  const std::size_t dash = name.size() - suffix.size() - digits - 1;
  return name[dash] == '-' && name.substr(dash + 1, digits) == check_of(name.substr(0, dash));
}

std::vector<std::string> read_leftovers(const Folder& in, const std::string& target) {
  std::vector<std::string> texts;
  for (const std::string& name : names_of(in, target)) {
    if (in.kind(name) != EntryKind::file) continue;
    const Descriptor file = in.open(name, O_RDONLY | O_NONBLOCK);
    if (!is_left(in, name, file)) continue;
    std::string text(longest_text, '\0');
    const ssize_t bytes = ::pread(file.value(), text.data(), text.size(), 0);
    text.resize(bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
    texts.push_back(std::move(text));
  }
  return texts;
}

void remove_leftovers(const Folder& in, const std::string& target) {
  for (const std::string& name : names_of(in, target)) remove_if_left(in, name);
}

void remove_temporaries() {
  const std::lock_guard lock(unfinished().mutex);
  for (const auto& [in, name] : unfinished().all)
    for (int attempt = 0; attempt < attempts && in.kind(name) != EntryKind::none; ++attempt) try {
        in.remove(name);  // repeats if another thread still writes into it
      } catch (const std::runtime_error&) {
      }
}

void remove_leftovers(const Folder& in) {
  for (const std::string& name : in.names())
    if (is_temporary(name)) remove_if_left(in, name);
}

void remove_at_once(const Folder& in, const std::string& name) {
  if (in.kind(name) == EntryKind::none) return;
  const std::string old = new_name(name);
  in.rename(name, in, old);
  in.remove(old);
}

Temporary::Temporary(Folder in, std::string target, EntryKind kind)
    : in_(std::move(in)), target_(std::move(target)), kind_(kind) {
  refuse_locked_above(in_);
  remove_leftovers(in_, target_);
  for (int attempt = 0; attempt < attempts; ++attempt) {
    name_ = new_name(target_);
    descriptor_ = make(in_, name_, kind);
    if (!descriptor_ && errno != EEXIST && errno != ENOENT) break;
    // Another process may take the file for a leftover before it is locked. That process then removes it.
    if (!descriptor_ || !lock_or_unknown(descriptor_) || !in_.has(name_, descriptor_.value())) continue;
    remember(in_, name_);
    return;
  }
  fail_writing(target_path(), errno);
}

Temporary::Temporary(Temporary&& other) noexcept
    : in_(other.in_),
      target_(other.target_),
      name_(std::exchange(other.name_, "")),
      kind_(other.kind_),
      descriptor_(std::move(other.descriptor_)) {}

Temporary::~Temporary() {
  if (name_.empty()) return;
  forget(name_);
  try {
    in_.remove(name_);
  } catch (const std::runtime_error&) {  // a later run removes it
  }
}

Folder Temporary::folder() const {
  Descriptor second(::fcntl(descriptor_.value(), F_DUPFD_CLOEXEC, 0));
  if (!second) fail_writing(path(), errno);
  return {path(), std::move(second)};
}

void Temporary::moved() {
  forget(name_);
  name_.clear();
  in_.sync();
}

bool Temporary::become_target() {
  count_change();
  if (::renameat(in_.descriptor(), name_.c_str(), in_.descriptor(), target_.c_str()) == 0) return moved(), true;
  if (errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR) return false;
  fail_writing(target_path(), errno);
}

void Temporary::replace_target() {
  const EntryKind there = in_.kind(target_);
  if (kind_ == EntryKind::folder) {
    if (there == EntryKind::folder) refuse_locked(in_.folder(target_));
    return become_target() ? void() : swap_with_target();
  }
  if (there == EntryKind::folder) fail_writing(target_path(), EISDIR);
  if (there == EntryKind::other) fail_input("{}: cannot write: is a device or a pipe; name a file", target_path());
  in_.rename(name_, in_, target_);
  moved();
}

// If the file system cannot swap, the target is missing for a moment; the new one is complete by then.
void Temporary::swap_with_target() {
  count_change();
  std::string old = name_;
  if (::renameat2(in_.descriptor(), name_.c_str(), in_.descriptor(), target_.c_str(), RENAME_EXCHANGE) != 0) {
    if (errno != EINVAL && errno != ENOSYS) fail_writing(target_path(), errno);
    old = new_name(target_);
    in_.rename(target_, in_, old);
    in_.rename(name_, in_, target_);
  }
  moved();
  in_.remove(old);
}

}  // namespace comera
