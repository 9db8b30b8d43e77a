// Interface to a backend: a table of functions. The reference and CPU backends are linked into the program. The CUDA
// backend is loaded from its own shared library. The call structs are only declared here: code that makes a call
// includes the header of its op.
#pragma once

#include "kernels/types.h"

namespace comera::kernels {

#define COMERA_OP(name, Args) struct Args;
#include "kernels/ops.def"

// Memory of a backend's tensors. The host may read and write it only if `host_accessible` is set.
struct Memory {
  bool host_accessible = true;
  void* (*allocate)(std::size_t bytes) = nullptr;  // zeroed, aligned to 4096 bytes; null if memory is exhausted
  void (*release)(void* data, std::size_t bytes) = nullptr;
  Status (*upload)(const Context&, void* to, const void* from_host, std::size_t bytes) = nullptr;
  Status (*download)(const Context&, void* to_host, const void* from, std::size_t bytes) = nullptr;
};

// A device with its own queue: calls return before their work is complete. All pointers are null in a backend that
// computes on the host.
struct Device {
  // Makes the device current and creates the CUDA stream for Context::stream.
  Status (*open)(int index, void** stream) = nullptr;
  void (*close)(void* stream) = nullptr;
  // Allocates host memory that uploads read directly, without a staging copy.
  void* (*allocate_pinned)(std::size_t bytes) = nullptr;
  void (*release_pinned)(void* data) = nullptr;
  Status (*wait)(const Context&) = nullptr;  // blocks until all work on the queue is complete
  Status (*free_bytes)(std::size_t* free_bytes, std::size_t* total) = nullptr;
  // Energy of the whole GPU in joules since an arbitrary start. Fails if the driver has no energy counter.
  Status (*joules)(double* used) = nullptr;
  const char* (*failure)() = nullptr;  // message of this thread's last call that returned Status::failed
  // Copies from pinned memory on a separate queue, in parallel with the main queue. Work submitted after join_copies()
  // sees all of these copies.
  Status (*upload_beside)(const Context&, void* to, const void* from_pinned, std::size_t bytes) = nullptr;
  Status (*join_copies)(const Context&) = nullptr;
  // Calls between begin and end are recorded, not run. Each launch of the graph runs all of them in order.
  Status (*begin_graph)(const Context&) = nullptr;
  // `calls` (may be null) receives the number of recorded calls; the device starts each one separately. After a
  // failure, end_graph ends the recording and returns a null graph.
  Status (*end_graph)(const Context&, void** graph, std::size_t* calls) = nullptr;
  Status (*launch_graph)(const Context&, void* graph) = nullptr;
  void (*release_graph)(void* graph) = nullptr;
  // Whether kernels of later calls may begin while the kernel before them ends, where the GPU can do that: it can wait
  // for a kernel's memory inside the next one. Default: they may. Results are the same bytes. Graphs keep the setting
  // with which they were recorded.
  void (*overlap_launches)(bool wanted) = nullptr;
};

struct Backend {
  const char* name = nullptr;  // "cpu", "reference", "cuda"
  const char* variant = "";    // instruction set or GPU
  Memory memory;
  Device device;
#define COMERA_OP(name, Args) Op<Args> name{#name};  // NOLINT(bugprone-macro-parentheses): Args is a type
#include "kernels/ops.def"
};

// The reference backend: slow and simple templates for f32, f64 and c128 (complex step). Ignores Context::stream.
const Backend& reference_backend();

// Returns the table for an instruction set of this machine; v4bf16 and v4amx have bf16 calls too. Context::stream is a
// ThreadPool*; null means the calling thread alone. `isa` is "auto", "v3", "v4", "v4bf16" or "v4amx". Returns null and
// sets *error to a message if the name is unknown or the machine does not support the set.
const Backend* cpu_backend(const char* isa, const char** error);

// Host memory, for backends that compute on the host (kernels/host/host_memory.cpp).
Memory host_memory();

}  // namespace comera::kernels
