// Files: bounded reading, views by mmap, and writing that is either complete or not there.
// Errors name the path and say what the system answered. Reading, and creating where one may not, is an InputError; a write that
// fails on the way (disk full) is a RunError.
//
// Fault injection: every change to the file system made here (create, write, truncate, fsync, rename, remove) is counted, and with
// COMERA_FAULT_AT=N in the environment the process ends, as if killed, just before the N-th (from 1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace comera {

// The whole file. Larger than `limit` bytes is an InputError, so that a wrong path cannot eat the memory.
std::string read_file(const std::string& path, std::uint64_t limit = std::uint64_t{1} << 28);

bool path_exists(const std::string& path);
bool is_folder(const std::string& path);
bool is_empty_folder(const std::string& path);
std::uint64_t file_size(const std::string& path);
std::vector<std::string> list_folder(const std::string& path);  // names of everything in it, sorted
std::string join_path(std::string_view folder, std::string_view name);
std::string base_name(std::string_view path);    // "model" of "runs/model/"
std::string parent_path(std::string_view path);  // "." where there is none
bool is_inside(std::string_view name);           // a plain relative name that does not leave its folder: no "..", no leading "/"

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
  enum class Mode : std::uint8_t { create, append };
  explicit FileWriter(std::string path, Mode mode = Mode::create);
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  ~FileWriter();

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
  int descriptor_ = -1;
  std::uint64_t position_ = 0;
};

// Written as `<path>.tmp`; `commit` makes it `path` in one instant. Without commit nothing of it stays.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  FileWriter& writer() { return writer_; }
  void commit();

 private:
  std::string path_;
  FileWriter writer_;
  bool committed_ = false;
};

void write_file_atomic(const std::string& path, std::string_view text);

// A folder written as `<path>.tmp` (a left-over one is removed first); `commit` fsyncs everything in it and makes it `path` in one
// instant, replacing a folder of that name. Without commit nothing of it stays.
class AtomicFolder {
 public:
  explicit AtomicFolder(std::string path);
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;
  ~AtomicFolder();

  const std::string& temporary() const { return temporary_; }  // write in here
  void commit();

 private:
  std::string path_, temporary_;
  bool committed_ = false;
};

// A log that survives a kill: each `append` goes to the system at once. Opening with `keep` cuts the file back to that many bytes
// first (on resume: what was written after the checkpoint); a file shorter than that is an InputError.
class AppendFile {
 public:
  explicit AppendFile(std::string path);
  AppendFile(std::string path, std::uint64_t keep);
  void append(std::string_view text);
  void sync() { writer_.sync(); }
  std::uint64_t size() const { return writer_.position(); }

 private:
  FileWriter writer_;
};

void make_folders(const std::string& path);  // with parents; fine where it exists
void remove_tree(const std::string& path);   // fine where there is nothing; never follows links
void rename_path(const std::string& from, const std::string& to);
void sync_folder(const std::string& path);
void copy_file(const std::string& from, const std::string& to);  // streamed, whole or not at all

std::uint64_t file_changes();  // how many changes were counted so far

}  // namespace comera
