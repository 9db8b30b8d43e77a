// Memory, queues, copies and graphs of a GPU by the CUDA runtime, and the entry point of the library.
#include "kernels/cuda/common/runtime.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>

#include "kernels/cuda/common/shared_limits.h"
#include "kernels/cuda/gpu/energy.h"
#include "kernels/cuda/gpu/errors.h"
#include "kernels/cuda/gpu/launch.h"
#include "kernels/host_copy.h"

namespace comera::kernels::cuda {
namespace {

cudaStream_t stream_of(const Context& context) { return static_cast<cudaStream_t>(context.stream); }

void* allocate(std::size_t bytes) {
  void* data = nullptr;
  if (bytes == 0 || !ok(cudaMalloc(&data, bytes))) return nullptr;
  // The queues are non-blocking: they do not wait for the default stream, which zeroes the memory.
  if (ok(cudaMemset(data, 0, bytes)) && ok(cudaDeviceSynchronize())) return data;
  cudaFree(data);
  return nullptr;
}

void release(void* data, std::size_t) { cudaFree(data); }

// Pageable host memory has been read on return; pinned memory may be read later.
Status upload(const Context& context, void* to, const void* from, std::size_t bytes) {
  return status_of(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_of(context)));
}

Status download(const Context& context, void* to, const void* from, std::size_t bytes) {
  const Status status = status_of(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_of(context)));
  return status == Status::ok ? status_of(cudaStreamSynchronize(stream_of(context))) : status;
}

char gpu[320] = "no device";

void describe_card() {
  int device = 0;
  cudaDeviceProp properties;
  if (cudaGetDevice(&device) == cudaSuccess && cudaGetDeviceProperties(&properties, device) == cudaSuccess)
    std::snprintf(gpu, sizeof gpu, "sm_%d%d %s", properties.major, properties.minor, properties.name);
}

Status open(int index, void** stream) {
  cudaStream_t opened = nullptr;
  if (!ok(cudaSetDevice(index))) return Status::failed;
  describe_card();
  if (!ok(cudaStreamCreateWithFlags(&opened, cudaStreamNonBlocking))) return Status::failed;
  *stream = opened;
  return Status::ok;
}

void close(void* stream) { cudaStreamDestroy(static_cast<cudaStream_t>(stream)); }
void* allocate_pinned(std::size_t bytes) {
  void* data = nullptr;
  return ok(cudaMallocHost(&data, bytes)) ? data : nullptr;
}
void release_pinned(void* data) { cudaFreeHost(data); }
Status wait(const Context& context) { return status_of(cudaStreamSynchronize(stream_of(context))); }
Status free_bytes(std::size_t* free_bytes, std::size_t* total) { return status_of(cudaMemGetInfo(free_bytes, total)); }

// The second queue, for copies, and an event that is reached when all copies requested so far are complete.
struct Copies {
  cudaStream_t stream = nullptr;
  cudaEvent_t done = nullptr;
  bool open = ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)) &&
              ok(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
};
const Copies& copies() {
  static const Copies made;
  return made;
}

Status upload_beside(const Context&, void* to, const void* from, std::size_t bytes) {
  const Copies& beside = copies();
  if (!beside.open || !ok(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, beside.stream)))
    return Status::failed;
  return status_of(cudaEventRecord(beside.done, beside.stream));
}
Status join_copies(const Context& context) {
  order_next_launch();
  return status_of(cudaStreamWaitEvent(stream_of(context), copies().done, 0));
}

// A queue of copies in one direction. Events are of the last copy with their ticket: `ready` is recorded in the main
// queue, `done` in this one. In the capture of a graph they make the copies a branch of it.
struct CopyQueue {
  cudaStream_t stream = nullptr;
  cudaEvent_t ready[copy_tickets] = {}, done[copy_tickets] = {};
  bool open = make();

  bool make() {
    bool made = ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int i = 0; i < copy_tickets; ++i)
      made = made && ok(cudaEventCreateWithFlags(&ready[i], cudaEventDisableTiming)) &&
             ok(cudaEventCreateWithFlags(&done[i], cudaEventDisableTiming));
    return made;
  }
};
const CopyQueue& queue_of(CopyTo direction) {
  static const CopyQueue to_host, to_device;
  return direction == CopyTo::host ? to_host : to_device;
}

// Relaxed mode: other threads may allocate memory meanwhile. The calls of the recording itself have run once before, so
// they load no kernel and make no handle here (lib/engine/device_steps.h).
Status begin_graph(const Context& context) {
  return status_of(cudaStreamBeginCapture(stream_of(context), cudaStreamCaptureModeRelaxed));
}

Status end_graph(const Context& context, void** graph, std::size_t* calls) {
  *graph = nullptr;
  cudaGraph_t captured = nullptr;
  if (!ok(cudaStreamEndCapture(stream_of(context), &captured))) return Status::failed;
  cudaGraphExec_t executable = nullptr;
  const bool made = (!calls || ok(cudaGraphGetNodes(captured, nullptr, calls))) &&
                    ok(cudaGraphInstantiate(&executable, captured, 0)) &&
                    ok(cudaGraphUpload(executable, stream_of(context)));
  cudaGraphDestroy(captured);
  *graph = executable;
  return made ? Status::ok : Status::failed;
}

Status launch_graph(const Context& context, void* graph) {
  return status_of(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), stream_of(context)));
}

void release_graph(void* graph) { cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)); }

}  // namespace

std::size_t shared_limit() {
  int device = 0, bytes = 0;
  const bool known =
      ok(cudaGetDevice(&device)) && ok(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return known ? static_cast<std::size_t>(bytes) : 0;
}

Status raise_shared_limit(const void* kernel, std::size_t bytes) {
  static SharedLimits limits;
  int device = 0;
  if (!ok(cudaGetDevice(&device))) return Status::failed;
  const auto most = [&] {
    cudaFuncAttributes attributes{};
    const std::size_t fixed = ok(cudaFuncGetAttributes(&attributes, kernel)) ? attributes.sharedSizeBytes : 0;
    return shared_limit() - std::min(shared_limit(), fixed);
  };
  return limits.raise(device, kernel, bytes, most, [&](std::size_t limit) {
    return status_of(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(limit)));
  });
}

Status copy_beside(const Context& context, const HostCopy& a) {
  const CopyQueue& queue = queue_of(a.direction);
  const cudaMemcpyKind kind = a.direction == CopyTo::host ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice;
  const bool copied = queue.open && ok(cudaEventRecord(queue.ready[a.ticket], stream_of(context))) &&
                      ok(cudaStreamWaitEvent(queue.stream, queue.ready[a.ticket], 0)) &&
                      ok(cudaMemcpyAsync(a.to, a.from, a.bytes, kind, queue.stream)) &&
                      ok(cudaEventRecord(queue.done[a.ticket], queue.stream));
  return copied ? Status::ok : Status::failed;
}

Status join_beside(const Context& context, const HostJoin& a) {
  order_next_launch();
  return status_of(cudaStreamWaitEvent(stream_of(context), queue_of(a.direction).done[a.ticket], 0));
}

Memory device_memory() { return {false, allocate, release, upload, download}; }

Device device_control() {
  return {open,        close,     allocate_pinned, release_pinned, wait,
          free_bytes,  joules,    last_failure,    upload_beside,  join_copies,
          begin_graph, end_graph, launch_graph,    release_graph,  overlap_launches};
}

const char* variant_name() {
  describe_card();
  return gpu;
}

Status copy_on_device(const Context& context, void* to, const void* from, std::size_t bytes) {
  if (to == from || bytes == 0) return Status::ok;
  return status_of(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_of(context)));
}

Status zero_on_device(const Context& context, void* data, std::size_t bytes) {
  return bytes == 0 ? Status::ok : status_of(cudaMemsetAsync(data, 0, bytes, stream_of(context)));
}

}  // namespace comera::kernels::cuda

// The function that the program looks up in the library.
extern "C" __attribute__((visibility("default"))) const comera::kernels::Backend* comera_cuda_backend(
    std::size_t table_bytes) {
  return table_bytes == sizeof(comera::kernels::Backend) ? &comera::kernels::cuda::table() : nullptr;
}
