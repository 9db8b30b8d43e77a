// A file or folder that is not finished: made new beside its target, under a name that nobody else has, and locked
// while its process lives. The name is ".TARGET.RANDOM-CHECK.comera", where CHECK is a hash of the two before it. So
// what a killed process left behind can be told from everything else: the mark is right and the lock is free. Nothing
// else is ever removed.
#pragma once

#include <string>
#include <vector>

#include "lib/core/folder.h"

namespace comera {

class Temporary {
 public:
  // First removes what killed processes left of the same target.
  Temporary(Folder in, std::string target, EntryKind kind);
  Temporary(Temporary&& other) noexcept;
  Temporary& operator=(Temporary&& other) = delete;
  ~Temporary();  // removed, unless it was moved

  std::string path() const { return in_.path_of(name_); }
  std::string target_path() const { return in_.path_of(target_); }
  const Folder& in() const { return in_; }
  const Descriptor& descriptor() const { return descriptor_; }
  Folder folder() const;  // itself, where it is one

  // Both in one instant; the folder around it is fsynced. What stands there goes away, but InputError: a folder that
  // another process has the lock of, and in the place of a file anything but a file or a link.
  void replace_target();
  bool become_target();  // of a folder; false where something but an empty folder is there already

 private:
  void swap_with_target();
  void moved();

  Folder in_;
  std::string target_, name_;
  EntryKind kind_;
  Descriptor descriptor_;
};

bool is_temporary(const std::string& name);  // bears the mark
// The first bytes of each file of that target that a killed process left.
std::vector<std::string> read_leftovers(const Folder& in, const std::string& target);
// Removes what killed processes left of that target.
void remove_leftovers(const Folder& in, const std::string& target);
// Removes what this process has not finished: for a process that ends in the middle of its work.
void remove_temporaries();
// Removes the unlocked leftovers of killed processes, whatever their target.
void remove_leftovers(const Folder& in);
// A folder that must vanish in one instant, so that half of it is never taken for the whole. Nothing there is fine.
void remove_at_once(const Folder& in, const std::string& name);

}  // namespace comera
