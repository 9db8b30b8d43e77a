// The emulator's memory, queue and graphs. GPU memory is host memory that is inaccessible between kernels.
#include "kernels/cuda/common/runtime.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "kernels/cuda/common/shared_limits.h"
#include "kernels/cuda/emulator/queue.h"
#include "kernels/cuda/emulator/threads.h"
#include "kernels/cuda/emulator/watch.h"
#include "kernels/host_copy.h"

namespace comera::kernels::cuda {
namespace emulator {
namespace {

using Work = std::function<void()>;
struct Graph {
  std::vector<Work> work;
};

std::map<void*, std::size_t> slabs;  // represents GPU memory; inaccessible while nothing runs
int running = 0;
Graph* capture = nullptr;
std::size_t live_graphs = 0;
std::set<const void*> loaded;                      // kernels
std::map<const void*, std::size_t> shared_limits;  // of kernels that were given one
int times_raised = 0;
void (*watch)(Moment) = nullptr;
Queued current;
constexpr std::size_t graph_bytes = 4096, kernel_bytes = 512;  // GPU memory per graph and per kernel

void protect(int how) {
  for (const auto& [data, bytes] : slabs) mprotect(data, bytes, how);
}

void run(const Work& work) {
  if (running++ == 0) protect(PROT_READ | PROT_WRITE);
  work();
  if (--running == 0) protect(PROT_NONE);
}

}  // namespace

Status enqueue(const Context&, Work work) {
  if (capture) {
    capture->work.push_back(std::move(work));
    return Status::ok;
  }
  current = {};
  if (watch) watch(Moment::begin);
  run(work);
  if (watch) watch(Moment::end);
  return Status::ok;
}

void set_watcher(void (*watcher)(Moment)) { watch = watcher; }
const Queued& latest_call() { return current; }

Status load(const void* kernel) {
  if (!loaded.insert(kernel).second || !capture) return Status::ok;
  loaded.erase(kernel);
  return Status::failed;
}
void unload_all() { loaded.clear(); }

void check_shared(const void* kernel, std::size_t bytes) {
  current.kernel = kernel, current.shared_bytes = bytes;
  const auto limit = shared_limits.find(kernel);
  if (bytes > (limit == shared_limits.end() ? SharedLimits::of_every_kernel : limit->second)) std::abort();
}
int raised_limits() { return times_raised; }

namespace {

// Memory, and questions about it, are refused during a capture.
void* allocate(std::size_t bytes) {
  if (bytes == 0 || capture) return nullptr;
  void* data = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  slabs[data] = bytes;
  return data;
}

void release(void* data, std::size_t bytes) {
  if (!data) return;
  slabs.erase(data);
  munmap(data, bytes);
}

// During capture of a graph the host address is recorded, as on a GPU: each replay reads its current contents.
Status upload(const Context& context, void* to, const void* from, std::size_t bytes) {
  return enqueue(context, [=] {
    current.read = current.written = bytes;
    if (bytes > 0) std::memcpy(to, from, bytes);
  });
}

Status download(const Context&, void* to, const void* from, std::size_t bytes) {
  if (capture) return Status::failed;  // the host would read before the recorded work has run
  run([=] {
    if (bytes > 0) std::memcpy(to, from, bytes);
  });
  return Status::ok;
}

Status open(int index, void** stream) {
  static int dummy;
  *stream = &dummy;
  return index == 0 ? Status::ok : Status::failed;
}
void close(void*) {}
void* allocate_pinned(std::size_t bytes) { return std::malloc(bytes); }
void release_pinned(void* data) { std::free(data); }
Status wait(const Context&) { return capture ? Status::failed : Status::ok; }
Status free_bytes(std::size_t* free_bytes, std::size_t* total) {
  if (capture) return Status::failed;
  *free_bytes = *total = std::size_t{1} << 30;
  std::size_t used = live_graphs * graph_bytes + loaded.size() * kernel_bytes;
  for (const auto& [data, bytes] : slabs) used += bytes;
  *free_bytes -= used < *free_bytes ? used : *free_bytes;
  return Status::ok;
}
// 1 J per launch of a graph, so that tests can predict it.
double used_joules = 0;
Status joules(double* used) {
  *used = used_joules;
  return Status::ok;
}
const char* failure() { return "a call that may not be recorded in a graph, or a device that is not there"; }

// Copies run as late as a GPU may run them: in join_copies.
std::vector<Work> copies;
Status upload_beside(const Context&, void* to, const void* from, std::size_t bytes) {
  copies.push_back([=] { std::memcpy(to, from, bytes); });
  return Status::ok;
}
Status join_copies(const Context&) {
  if (capture) return Status::failed;
  for (const Work& work : std::exchange(copies, {})) run(work);
  return Status::ok;
}

// Copies beside the queue end as late as they may, when they are joined. Until then their target holds other bytes, so
// that a reader that does not wait, or another owner of the memory, is seen.
std::map<std::pair<CopyTo, int>, Work> beside;

Status begin_graph(const Context&) {
  if (capture) return Status::failed;
  capture = new Graph;
  return Status::ok;
}
Status end_graph(const Context&, void** graph, std::size_t* calls) {
  Graph* const recorded = std::exchange(capture, nullptr);
  *graph = recorded;
  if (!recorded) return Status::failed;
  ++live_graphs;
  if (calls) *calls = recorded->work.size();
  return Status::ok;
}
Status launch_graph(const Context&, void* graph) {
  if (capture) return Status::failed;
  used_joules += 1;
  for (const Work& work : static_cast<Graph*>(graph)->work) run(work);
  return Status::ok;
}
void release_graph(void* graph) {
  live_graphs -= graph != nullptr;
  delete static_cast<Graph*>(graph);
}

}  // namespace
}  // namespace emulator

std::size_t shared_limit() { return emulator::shared_limit(); }

Status raise_shared_limit(const void* kernel, std::size_t bytes) {
  static SharedLimits limits;
  return limits.raise(0, kernel, bytes, shared_limit, [&](std::size_t limit) {
    emulator::shared_limits[kernel] = limit;
    ++emulator::times_raised;
    return Status::ok;
  });
}

Status copy_beside(const Context& context, const HostCopy& a) {
  return emulator::enqueue(context, [=] {
    std::memset(a.to, 0xFF, a.bytes);
    const bool is_free =
        emulator::beside.emplace(std::pair(a.direction, a.ticket), [=] { std::memcpy(a.to, a.from, a.bytes); }).second;
    if (!is_free) std::abort();  // the copy with this ticket was not joined
  });
}

Status join_beside(const Context& context, const HostJoin& a) {
  return emulator::enqueue(context, [=] {
    const auto copy = emulator::beside.find({a.direction, a.ticket});
    if (copy == emulator::beside.end()) return;
    copy->second();
    emulator::beside.erase(copy);
  });
}

Memory device_memory() { return {false, emulator::allocate, emulator::release, emulator::upload, emulator::download}; }

Device device_control() {
  using namespace emulator;
  return {open,          close,       allocate_pinned, release_pinned, wait,         free_bytes,    joules,     failure,
          upload_beside, join_copies, begin_graph,     end_graph,      launch_graph, release_graph, [](bool) {}};
}

const char* variant_name() { return "emulator"; }

Status copy_on_device(const Context& context, void* to, const void* from, std::size_t bytes) {
  return to == from || bytes == 0 ? Status::ok : emulator::upload(context, to, from, bytes);
}

Status zero_on_device(const Context& context, void* data, std::size_t bytes) {
  return bytes == 0 ? Status::ok : emulator::enqueue(context, [=] {
    emulator::current.written = bytes;
    std::memset(data, 0, bytes);
  });
}

}  // namespace comera::kernels::cuda
