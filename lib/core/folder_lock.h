// One process at a time writes to a folder: a run's, or that of unfinished work.
#pragma once

#include <string>

#include "lib/core/folder.h"

namespace comera {

// Locks ".comera.lock" in the folder (flock(2)), which names the process and the host, and is removed when the lock
// goes.
class FolderLock {
 public:
  static constexpr const char* file_name = ".comera.lock";

  explicit FolderLock(const Folder& folder);  // InputError that names the process that has it
  FolderLock(FolderLock&&) = default;
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  Folder folder_;
  Descriptor file_;
};

// InputError where another process has the lock of that folder; takes nothing.
void refuse_locked(const Folder& folder);

// A folder in which unfinished work waits for the same command to go on. It has a fixed name, so it bears a mark: a
// folder of that name without it is somebody else's, and is refused.
class WorkPlace {
 public:
  // Makes the folder, or takes up the one that is there. InputError: it bears no mark, or another process works in it.
  explicit WorkPlace(const std::string& path);
  WorkPlace(const WorkPlace&) = delete;
  WorkPlace& operator=(const WorkPlace&) = delete;

  const std::string& path() const { return path_; }
  void clear();   // of everything but mark and lock
  void remove();  // the folder with everything in it

 private:
  std::string path_, name_;
  Folder parent_, folder_;
  std::unique_ptr<FolderLock> lock_;
};

}  // namespace comera
