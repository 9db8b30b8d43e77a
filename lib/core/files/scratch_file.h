// Temporary data of a computation that should not occupy memory. The bytes are in a file without a name, which the
// system removes when the program ends in any way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>

namespace comera {

class ScratchFile {
 public:
  // Makes the file in `folder`, or in its nearest existing parent. "" selects the system's temporary folder.
  // InputError if the file cannot be made.
  explicit ScratchFile(const std::string& folder);
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  ~ScratchFile();

  // Reserves `bytes` bytes: a released place of this size, else those after all others. Returns their offset.
  // Any thread may call the functions of a file; those of one place must not overlap.
  std::uint64_t reserve(std::uint64_t bytes);
  void release(std::uint64_t at, std::uint64_t bytes);
  // RunError if the disk is full or fails.
  void write(std::uint64_t at, std::span<const std::byte> bytes);
  void read(std::uint64_t at, std::span<std::byte> bytes) const;

 private:
  std::string folder_;
  int descriptor_ = -1;
  std::mutex mutex_;  // of end_ and free_
  std::uint64_t end_ = 0;
  std::multimap<std::uint64_t, std::uint64_t> free_;  // offsets of released places by their bytes
};

}  // namespace comera
