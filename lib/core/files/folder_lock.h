// Locks a folder (of a run or of unfinished work), so that only one process at a time writes to it.
#pragma once

#include <string>
#include <vector>

#include "lib/core/files/folder.h"

namespace comera {

// Locks ".comera.lock" in the folder with flock(2). The file names the process and the host. The destructor removes
// it.
class FolderLock {
 public:
  static constexpr const char* file_name = ".comera.lock";

  explicit FolderLock(const Folder& folder);  // InputError that names the process that holds the lock
  FolderLock(FolderLock&&) = default;
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  Folder folder_;
  Descriptor file_;
};

// InputError if another process holds the folder's lock. Takes no lock.
void refuse_locked(const Folder& folder);
// The same for the lock of the folder and of all folders above it; a lock of this process is none of others. `path`: an
// output, which need not exist yet.
void refuse_locked_above(const Folder& folder);
void refuse_locked_above(const std::string& path);

// A folder with unfinished work, which the same command continues later. Its name is fixed, so a mark file identifies
// it. A folder of that name without the mark belongs to someone else and is refused. So is one with files of others,
// because the work removes what it finds there.
class WorkPlace {
 public:
  // Creates the folder or opens an existing one. `own`: globs of the relative names that the work writes; those of
  // folders end in '/'. InputError if it has no mark, another process uses it, or it holds anything else.
  WorkPlace(const std::string& path, std::vector<std::string> own);
  WorkPlace(const WorkPlace&) = delete;
  WorkPlace& operator=(const WorkPlace&) = delete;

  const std::string& path() const { return path_; }
  void clear();   // removes everything but mark and lock. InputError as above
  void remove();  // removes the folder with its contents, except files of others, which a warning names

 private:
  std::string foreign(const Folder& folder, const std::string& below = "") const;  // the first one; "": none
  void refuse_foreign() const;
  void remove_own(const Folder& folder, const std::string& below) const;
  bool is_own(const Folder& folder, const std::string& name, const std::string& relative) const;

  std::vector<std::string> own_;
  std::string path_, name_;
  Folder parent_, folder_;
  std::unique_ptr<FolderLock> lock_;
};

}  // namespace comera
