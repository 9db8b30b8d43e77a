// Locks a folder (of a run or of unfinished work), so that only one process at a time writes to it.
#pragma once

#include <string>

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

// A folder with unfinished work, which the same command continues later. Its name is fixed, so a mark file identifies
// it. A folder of that name without the mark belongs to someone else and is refused.
class WorkPlace {
 public:
  // Creates the folder or opens an existing one. InputError if it has no mark or another process uses it.
  explicit WorkPlace(const std::string& path);
  WorkPlace(const WorkPlace&) = delete;
  WorkPlace& operator=(const WorkPlace&) = delete;

  const std::string& path() const { return path_; }
  void clear();   // removes everything but mark and lock
  void remove();  // removes the folder with its contents

 private:
  std::string path_, name_;
  Folder parent_, folder_;
  std::unique_ptr<FolderLock> lock_;
};

}  // namespace comera
