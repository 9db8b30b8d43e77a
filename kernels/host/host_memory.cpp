// Host memory by mmap: the operating system zeroes pages only on first touch and gets them back at once on release.
// Uses huge pages if available.
#include <sys/mman.h>

#include <cstring>

#include "kernels/backend.h"

namespace comera::kernels {
namespace {

void* allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  madvise(data, bytes, MADV_HUGEPAGE);
  return data;
}

void release(void* data, std::size_t bytes) {
  if (data) munmap(data, bytes);
}

Status copy(const Context&, void* to, const void* from, std::size_t bytes) {
  if (bytes) std::memcpy(to, from, bytes);
  return Status::ok;
}

}  // namespace

Memory host_memory() { return {true, allocate, release, copy, copy}; }

}  // namespace comera::kernels
