// An open folder. What is done in it goes by its descriptor under plain names, and a link that lies in it is never
// followed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/core/descriptor.h"

namespace comera {

enum class EntryKind : std::uint8_t { none, file, folder, link, other };

class Folder {
 public:
  // Links on the way to `path` are followed, for the user named it. Errors as in file.h.
  explicit Folder(std::string path);
  Folder(std::string path, Descriptor descriptor);  // open already; `path`: for errors
  static Folder made(const std::string& path);      // with parents, where it is not there

  const std::string& path() const { return path_; }
  std::string path_of(const std::string& name) const;
  int descriptor() const { return descriptor_->value(); }

  EntryKind kind(const std::string& name) const;
  std::vector<std::string> names() const;  // of everything in it, sorted
  // True where that name still leads to the open file or folder.
  bool has(const std::string& name, int descriptor) const;

  // As openat(2), with O_NOFOLLOW and O_CLOEXEC; -1 and errno where it fails. Files are made with O_CREAT among the
  // flags.
  Descriptor open(const std::string& name, int flags) const;
  // For reading. InputError: it is a link or no regular file, or cannot be opened.
  Descriptor open_file(const std::string& name) const;
  // InputError where it is a link or no folder.
  Folder folder(const std::string& name) const;
  Folder make_folder(const std::string& name) const;  // new, or there already

  void remove(const std::string& name) const;  // with everything in it; nothing there is fine
  void rename(const std::string& from, const Folder& to_folder, const std::string& to) const;
  void sync() const;

 private:
  std::string path_;
  std::shared_ptr<const Descriptor> descriptor_;
};

}  // namespace comera
