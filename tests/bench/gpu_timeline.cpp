// Writes what a GPU ran and when: a library that CUDA loads into any program
// (CUDA_INJECTION64_PATH=libgpu_timeline.so). COMERA_TIMELINE names the file: a line per kernel, copy and fill, with
// tabs between the columns of the first line. Times are nanoseconds of the GPU's clock. scripts/gpu_timeline.py makes a
// table of a step of it.
#include <cupti.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace {

constexpr std::size_t buffer_bytes = 8 << 20, alignment = 8;

std::mutex mutex;
std::FILE* file = nullptr;

void request(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(alignment, buffer_bytes));
  *bytes = *buffer ? buffer_bytes : 0, *most_records = 0;
}

void write(const CUpti_Activity* record) {
  if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    const auto& k = *reinterpret_cast<const CUpti_ActivityKernel10*>(record);
    std::fprintf(file, "%llu\t%llu\t%u\t%u\t%d\t%d\t%u\t%d\t%s\n", static_cast<unsigned long long>(k.start),
                 static_cast<unsigned long long>(k.end), k.graphId, k.streamId, k.gridX * k.gridY * k.gridZ,
                 k.blockX * k.blockY * k.blockZ, k.registersPerThread, k.staticSharedMemory + k.dynamicSharedMemory,
                 k.name);
  } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    const auto& c = *reinterpret_cast<const CUpti_ActivityMemcpy6*>(record);
    std::fprintf(file, "%llu\t%llu\t%u\t%u\t0\t0\t0\t%llu\tcopy %d\n", static_cast<unsigned long long>(c.start),
                 static_cast<unsigned long long>(c.end), c.graphId, c.streamId,
                 static_cast<unsigned long long>(c.bytes), c.copyKind);
  } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    const auto& s = *reinterpret_cast<const CUpti_ActivityMemset4*>(record);
    std::fprintf(file, "%llu\t%llu\t%u\t%u\t0\t0\t0\t%llu\tfill\n", static_cast<unsigned long long>(s.start),
                 static_cast<unsigned long long>(s.end), s.graphId, s.streamId,
                 static_cast<unsigned long long>(s.bytes));
  }
}

void complete(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  const std::lock_guard lock(mutex);
  CUpti_Activity* record = nullptr;
  while (file && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) write(record);
  if (file) std::fflush(file);
  std::free(buffer);
}

void flush() { cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED); }

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  const char* const path = std::getenv("COMERA_TIMELINE");
  file = path ? std::fopen(path, "w") : nullptr;
  if (!file) return 1;
  std::fprintf(file, "start\tend\tgraph\tstream\tblocks\tthreads\tregisters\tbytes\tname\n");
  bool made = cuptiActivityRegisterCallbacks(request, complete) == CUPTI_SUCCESS;
  for (const CUpti_ActivityKind kind :
       {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET})
    made = made && cuptiActivityEnable(kind) == CUPTI_SUCCESS;
  if (!made) std::fprintf(stderr, "gpu_timeline: CUPTI refuses to record\n");
  std::atexit(flush);
  return 1;
}
