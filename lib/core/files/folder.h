// An open folder. Its operations use the descriptor and plain names, and never follow a link inside the folder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/core/files/descriptor.h"

namespace comera {

enum class EntryKind : std::uint8_t { none, file, folder, link, other };

class Folder {
 public:
  // Follows links in `path`, because the user named it. Errors as in file.h.
  explicit Folder(std::string path);
  Folder(std::string path, Descriptor descriptor);  // takes an open folder; `path` is for error messages
  static Folder made(const std::string& path);      // opens the folder; creates it with its parents if it is missing

  const std::string& path() const { return path_; }
  std::string path_of(const std::string& name) const;
  int descriptor() const { return descriptor_->value(); }

  EntryKind kind(const std::string& name) const;
  std::vector<std::string> names() const;  // of all entries, sorted
  // True if `name` still refers to the open file or folder.
  bool has(const std::string& name, int descriptor) const;

  // Like openat(2) with O_NOFOLLOW and O_CLOEXEC. Returns -1 and sets errno on failure. O_CREAT in `flags` creates
  // files.
  Descriptor open(const std::string& name, int flags) const;
  // Opens for reading. InputError if it is a link, is no regular file, or cannot be opened.
  Descriptor open_file(const std::string& name) const;
  // InputError if it is a link or no folder.
  Folder folder(const std::string& name) const;
  Folder make_folder(const std::string& name) const;  // creates it, or opens the existing one

  void remove(const std::string& name) const;  // recursive; a missing entry is no error
  void rename(const std::string& from, const Folder& to_folder, const std::string& to) const;
  void sync() const;

 private:
  std::string path_;
  std::shared_ptr<const Descriptor> descriptor_;
};

}  // namespace comera
