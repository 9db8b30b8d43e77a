// An unfinished file or folder. It is made beside its target under a unique name and locked while its process lives.
// The name is ".TARGET.RANDOM-CHECK.comera", where CHECK is a hash of TARGET and RANDOM. A leftover of a killed
// process therefore has a valid CHECK and a free lock. Nothing else is ever removed.
#pragma once

#include <string>
#include <vector>

#include "lib/core/files/folder.h"

namespace comera {

class Temporary {
 public:
  // First removes the leftovers of killed processes for the same target. InputError if another process holds the lock
  // of the folder or of one above it.
  Temporary(Folder in, std::string target, EntryKind kind);
  Temporary(Temporary&& other) noexcept;
  Temporary& operator=(Temporary&& other) = delete;
  ~Temporary();  // removes it unless it was renamed to its target

  std::string path() const { return in_.path_of(name_); }
  std::string target_path() const { return in_.path_of(target_); }
  const Folder& in() const { return in_; }
  const Descriptor& descriptor() const { return descriptor_; }
  Folder folder() const;  // opens it, if it is a folder

  // Replaces the target atomically and fsyncs the parent folder. InputError if the target is a folder that another
  // process has locked, or if a file would replace anything but a file or a link.
  void replace_target();
  bool become_target();  // for a folder; returns false if anything but an empty folder has the target's name

 private:
  void swap_with_target();
  void moved();

  Folder in_;
  std::string target_, name_;
  EntryKind kind_;
  Descriptor descriptor_;
};

bool is_temporary(const std::string& name);  // true if the name has a valid CHECK
// The first bytes of each file that a killed process left for that target.
std::vector<std::string> read_leftovers(const Folder& in, const std::string& target);
// Removes the leftovers of killed processes for that target.
void remove_leftovers(const Folder& in, const std::string& target);
// Removes all unfinished temporaries of this process. For a process that ends in the middle of its work.
void remove_temporaries();
// Removes the leftovers of killed processes for any target.
void remove_leftovers(const Folder& in);
// Removes a folder atomically: it is renamed first, so that a partly removed folder is never read as complete. A
// missing folder is no error.
void remove_at_once(const Folder& in, const std::string& name);

}  // namespace comera
