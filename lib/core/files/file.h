// Files: reads with a size limit, views by mmap, and atomic writes.
// Error messages name the path and include the system's error text. A failed read is an InputError, and so is a file
// that may not be created. A write that fails later (disk full) is a RunError.
//
// Fault injection: every change to the file system by this room (create, write, truncate, fsync, rename, remove) is
// counted. With COMERA_FAULT_AT=N in the environment, the process ends as if killed just before change N (from 1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/core/files/folder.h"
#include "lib/core/files/temporary.h"

namespace comera {

// Reads the whole file. A file larger than `limit` bytes is an InputError, so a wrong path cannot use up the memory.
constexpr std::uint64_t largest_read = std::uint64_t{1} << 28;
std::string read_file(const std::string& path, std::uint64_t limit = largest_read);
std::string read_file(const Folder& folder, const std::string& name, std::uint64_t limit = largest_read);

bool path_exists(const std::string& path);
bool is_folder(const std::string& path);
bool is_empty_folder(const std::string& path);
std::uint64_t file_size(const std::string& path);
std::vector<std::string> list_folder(const std::string& path);  // names of all entries, sorted
std::string join_path(std::string_view folder, std::string_view name);
std::string base_name(std::string_view path);    // "model" of "runs/model/"
std::string parent_path(std::string_view path);  // "." if the path has no parent
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
  // Releases the memory of the whole pages inside `part`. A later access reads them from the file again.
  void forget(std::span<const std::byte> part) const;

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

// Buffered writer of a file. The destructor drops the buffer, so callers must call `close()`.
class FileWriter {
 public:
  explicit FileWriter(std::string path);  // appends; creates the file if it is missing
  FileWriter(Descriptor file, std::string path)
      : path_(std::move(path)), descriptor_(std::move(file)) {}  // `path` is for error messages
  FileWriter(FileWriter&&) = default;
  FileWriter& operator=(FileWriter&&) = delete;
  ~FileWriter() = default;

  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void flush();
  void sync();  // flush and fsync
  void close();
  void truncate(std::uint64_t bytes);  // cuts the file and moves the write position there
  std::uint64_t position() const { return position_; }
  const std::string& path() const { return path_; }

 private:
  void write_now(const char* data, std::size_t bytes);

  std::string path_, buffer_;
  Descriptor descriptor_;
  std::uint64_t position_ = 0;
};

// A file that is written beside `path` under a unique name (temporary.h). `commit` renames it to `path` atomically.
// Without commit it is removed.
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

// A folder that is written beside `path` under a unique name. `commit` fsyncs its contents and renames it to `path`
// atomically. Without commit it is removed.
class AtomicFolder {
 public:
  explicit AtomicFolder(const std::string& path);  // creates the parents
  AtomicFolder(const Folder& in, const std::string& name);

  const std::string& temporary() const { return path_; }  // files are written into this path
  const Folder& folder() const { return folder_; }        // the same folder as an open descriptor
  void commit();      // replaces an existing target; InputError if another process holds the target's lock
  void commit_new();  // InputError if the target exists by now

 private:
  Temporary temporary_;
  std::string path_;
  Folder folder_;
};

// A log that survives a kill: each `append` calls write(2) at once.
class AppendFile {
 public:
  explicit AppendFile(const std::string& path);
  // First cuts the file to `keep` bytes; on resume this removes the lines that were written after the checkpoint.
  // InputError if the file is shorter, is a link, or has other hard links, which would change too.
  AppendFile(const Folder& folder, const std::string& name, std::uint64_t keep);
  void append(std::string_view text);
  void sync() { writer_.sync(); }
  std::uint64_t size() const { return writer_.position(); }

 private:
  FileWriter writer_;
};

void make_folders(const std::string& path);                      // with parents; an existing folder is no error
void remove_tree(const std::string& path);                       // a missing path is no error; never follows links
void copy_file(const std::string& from, const std::string& to);  // streams the contents; atomic
void copy_file(const std::string& from, const Folder& to, const std::string& name);
void copy_file(const Folder& from, const Folder& to, const std::string& name);

std::uint64_t file_changes();  // number of changes counted so far

}  // namespace comera
