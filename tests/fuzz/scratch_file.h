// An in-memory file for readers that open a path; rewritten for every input.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

class ScratchFile {
 public:
  ScratchFile() : descriptor_(::memfd_create("input", 0)), path_("/proc/self/fd/" + std::to_string(descriptor_)) {}
  const std::string& path() const { return path_; }
  void fill(const std::uint8_t* data, std::size_t size) const {
    if (::ftruncate(descriptor_, 0) != 0 || ::pwrite(descriptor_, data, size, 0) != static_cast<ssize_t>(size))
      std::abort();
  }

 private:
  int descriptor_;
  std::string path_;
};
