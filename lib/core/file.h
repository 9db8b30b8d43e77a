// Files: bounded reading, views by mmap, and writing that is either complete or not there.
// Errors name the path and say what the system answered. Reading, and creating where one may not, is an InputError; a
// write that fails on the way (disk full) is a RunError.
//
// Fault injection: every change to the file system made here (create, write, truncate, fsync, rename, remove) is
// counted, and with COMERA_FAULT_AT=N in the environment the process ends, as if killed, just before the N-th (from 1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/core/folder.h"
#include "lib/core/temporary.h"

namespace comera {

// The whole file. Larger than `limit` bytes is an InputError, so that a wrong path cannot eat the memory.
constexpr std::uint64_t largest_read = std::uint64_t{1} << 28;
std::string read_file(const std::string& path, std::uint64_t limit = largest_read);
std::string read_file(const Folder& folder, const std::string& name, std::uint64_t limit = largest_read);

bool path_exists(const std::string& path);
bool is_folder(const std::string& path);
bool is_empty_folder(const std::string& path);
std::uint64_t file_size(const std::string& path);
std::vector<std::string> list_folder(const std::string& path);  // names of everything in it, sorted
std::string join_path(std::string_view folder, std::string_view name);
std::string base_name(std::string_view path);    // "model" of "runs/model/"
std::string parent_path(std::string_view path);  // "." where there is none
bool is_inside(std::string_view name);  // a plain relative name that does not leave its folder: no "..", no leading "/"

// Read-only view of a file. The file must not shrink while it is open.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }
  std::string_view text() const { return {static_cast<const char*>(data_), size_}; }
  // Gives the memory of whole pages inside `part` back; they are read again when they are looked at.
  void forget(std::span<const std::byte> part) const;

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

// A file being written, through a buffer. Closing without `close()` loses what is in the buffer: call it.
class FileWriter {
 public:
  explicit FileWriter(std::string path);  // appends; made where it is not there
  FileWriter(Descriptor file, std::string path)
      : path_(std::move(path)), descriptor_(std::move(file)) {}  // `path`: for errors
  FileWriter(FileWriter&&) = default;
  FileWriter& operator=(FileWriter&&) = delete;
  ~FileWriter() = default;

  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void flush();
  void sync();  // flush and fsync
  void close();
  void truncate(std::uint64_t bytes);  // and go on writing there
  std::uint64_t position() const { return position_; }
  const std::string& path() const { return path_; }

 private:
  void write_now(const char* data, std::size_t bytes);

  std::string path_, buffer_;
  Descriptor descriptor_;
  std::uint64_t position_ = 0;
};

// Written beside `path` under a name of its own (temporary.h); `commit` makes it `path` in one instant. Without commit
// nothing of it stays.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  AtomicFile(const Folder& folder, const std::string& name);

  FileWriter& writer() { return writer_; }
  void commit();

 private:
  explicit AtomicFile(Temporary temporary);

  Temporary temporary_;
  FileWriter writer_;
};

void write_file_atomic(const std::string& path, std::string_view text);
void write_file_atomic(const Folder& folder, const std::string& name, std::string_view text);

// A folder written beside `path` under a name of its own; `commit` fsyncs everything in it and makes it `path` in one
// instant. Without commit nothing of it stays.
class AtomicFolder {
 public:
  explicit AtomicFolder(const std::string& path);  // parents are made
  AtomicFolder(const Folder& in, const std::string& name);

  const std::string& temporary() const { return path_; }  // write in here
  const Folder& folder() const { return folder_; }        // the same, open
  void commit();      // what is there goes away; InputError where another process has its lock
  void commit_new();  // InputError where something is there by now

 private:
  Temporary temporary_;
  std::string path_;
  Folder folder_;
};

// A log that survives a kill: each `append` goes to the system at once.
class AppendFile {
 public:
  explicit AppendFile(const std::string& path);
  // Cuts the file back to `keep` bytes first (on resume: what was written after the checkpoint). InputError: it is
  // shorter, or a link, or has another name besides, which would change too.
  AppendFile(const Folder& folder, const std::string& name, std::uint64_t keep);
  void append(std::string_view text);
  void sync() { writer_.sync(); }
  std::uint64_t size() const { return writer_.position(); }

 private:
  FileWriter writer_;
};

void make_folders(const std::string& path);                      // with parents; fine where it exists
void remove_tree(const std::string& path);                       // fine where there is nothing; never follows links
void copy_file(const std::string& from, const std::string& to);  // streamed, whole or not at all
void copy_file(const std::string& from, const Folder& to, const std::string& name);
void copy_file(const Folder& from, const Folder& to, const std::string& name);

std::uint64_t file_changes();  // how many changes were counted so far

}  // namespace comera
