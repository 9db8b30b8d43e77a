// What a computation needs again later and memory should not hold: bytes in a file without a name, which is gone when
// the program ends, however it ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace comera {

class ScratchFile {
 public:
  // In `folder`, or the nearest folder above it that is there; "": where the system keeps temporary files. InputError
  // where none can be made.
  explicit ScratchFile(const std::string& folder);
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  ~ScratchFile();

  // A place for so many bytes, behind those that were asked for before.
  std::uint64_t reserve(std::uint64_t bytes);
  // RunError where the disk is full or fails.
  void write(std::uint64_t at, std::span<const std::byte> bytes);
  void read(std::uint64_t at, std::span<std::byte> bytes) const;

 private:
  std::string folder_;
  int descriptor_ = -1;
  std::uint64_t end_ = 0;
};

}  // namespace comera
