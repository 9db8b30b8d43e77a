// Tests of the CUDA emulator. It must follow the rules of CUDA, because the kernel tests depend on it.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <numeric>
#include <vector>

#include "kernels/cuda/common/device.h"
#include "kernels/cuda/common/element.h"
#include "kernels/cuda/common/reduce.h"
#include "kernels/cuda/common/runtime.h"
#include "kernels/elementwise.h"

namespace comera::kernels::cuda {
namespace {

using emulator::Order;

// Memory of the emulator, with copies to and from the host.
struct Numbers {
  const Memory memory = table().memory;
  std::size_t bytes;
  float* data;

  explicit Numbers(std::size_t count)
      : bytes(count * sizeof(float)), data(static_cast<float*>(memory.allocate(bytes))) {}
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;
  ~Numbers() { memory.release(data, bytes); }
  std::vector<float> read() const {
    std::vector<float> host(bytes / sizeof(float));
    REQUIRE(memory.download({}, host.data(), data, bytes) == Status::ok);
    return host;
  }
  void write(const std::vector<float>& host) const {
    REQUIRE(memory.upload({}, data, host.data(), bytes) == Status::ok);
  }
};

__global__ void reverse(const float* x, float* y, bool with_barrier) {
  begin_kernel();
  auto* shared = shared_memory<float>();
  shared[threadIdx.x] = x[flat_index()];
  if (with_barrier) __syncthreads();
  y[flat_index()] = shared[blockDim.x - 1 - threadIdx.x];
}

__global__ void sums(const float* x, float* y) {
  begin_kernel();
  const float total = sum_of_block(x[flat_index()]);
  if (threadIdx.x == 0) y[blockIdx.x] = total;
}

__global__ void wait_for_nobody() {
  begin_kernel();
  if (threadIdx.x % 2 == 0) {
    __syncthreads();
  } else {
    __syncwarp();
  }
}

// Not marked as a kernel, so that the rule for kernels does not see it.
void begin_too_late(float* y) {
  if (threadIdx.x == 0) {
    y[0] = 1;
  } else {
    begin_kernel();
  }
}

std::vector<float> reversed(Order order, bool with_barrier) {
  constexpr unsigned threads = 64, blocks = 3;
  Numbers x(threads * blocks), y(threads * blocks);
  std::vector<float> start(threads * blocks);
  std::iota(start.begin(), start.end(), 1.0f);
  x.write(start);
  emulator::set_order(order);
  REQUIRE(launch({}, {blocks, threads, threads * sizeof(float)}, reverse, x.data, y.data, with_barrier) == Status::ok);
  emulator::set_order(Order::rising);
  return y.read();
}

// Runs f in a child process and returns its status.
template <class F>
int outcome(F f) {
  const pid_t child = fork();
  if (child == 0) {
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    f();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

}  // namespace

TEST_CASE("cuda emulator: threads of a block meet at barriers, in any order") {
  const std::vector<float> wanted = reversed(Order::rising, true);
  CHECK(wanted[0] == 64);
  CHECK(wanted[64] == 128);
  CHECK(wanted[191] == 129);
  CHECK(reversed(Order::falling, true) == wanted);
  CHECK(reversed(Order::shuffled, true) == wanted);
}

TEST_CASE("cuda emulator: a missing barrier shows") {
  const std::vector<float> wanted = reversed(Order::rising, true);
  CHECK(reversed(Order::rising, false) != wanted);
  CHECK(reversed(Order::falling, false) != wanted);
}

TEST_CASE("cuda emulator: sums over warps and blocks") {
  for (unsigned threads : {32u, 96u, 1024u}) {
    Numbers x(2 * threads), y(2);
    std::vector<float> start(2 * threads);
    std::iota(start.begin(), start.end(), 0.0f);
    x.write(start);
    REQUIRE(launch({}, {2, threads}, sums, x.data, y.data) == Status::ok);
    const float first = static_cast<float>(threads) * static_cast<float>(threads - 1) / 2;
    CHECK(y.read() == std::vector<float>{first, first + static_cast<float>(threads) * static_cast<float>(threads)});
  }
}

TEST_CASE("cuda emulator: threads at different barriers end the program") {
  const int status = outcome([] { (void)launch({}, {1, 32}, wait_for_nobody); });
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT));
}

TEST_CASE("cuda emulator: a kernel that a thread enters without begin_kernel ends the program") {
  Numbers y(4);
  const int status = outcome([&] { (void)launch({}, {1, 32}, begin_too_late, y.data); });
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT));
}

TEST_CASE("cuda emulator: the host cannot reach the device's memory") {
  Numbers x(4);
  const int status = outcome([&] { *static_cast<volatile float*>(x.data) = 1; });
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV));
}

TEST_CASE("cuda emulator: a graph runs only when it is launched, once per launch") {
  const Device device = table().device;
  Numbers x(8);
  const AddScaled twice{8, 1, x.data, x.data};
  REQUIRE(table().add_scaled.run({}, twice) == Status::ok);  // a first call may not come in a recording
  x.write(std::vector<float>(8, 1.0f));
  void* graph = nullptr;
  std::size_t calls = 0;
  REQUIRE(device.begin_graph({}) == Status::ok);
  REQUIRE(table().add_scaled.run({}, twice) == Status::ok);
  REQUIRE(table().fill.run({}, {x.data, 0}) == Status::ok);  // an empty fill is not a call
  std::vector<float> host(8);
  CHECK(table().memory.download({}, host.data(), x.data, x.bytes) == Status::failed);  // nothing has run yet
  REQUIRE(device.end_graph({}, &graph, &calls) == Status::ok);
  CHECK(calls == 1);
  CHECK(x.read() == std::vector<float>(8, 1.0f));
  for (int i = 0; i < 2; ++i) REQUIRE(device.launch_graph({}, graph) == Status::ok);
  CHECK(x.read() == std::vector<float>(8, 4.0f));
  device.release_graph(graph);
}

TEST_CASE("cuda emulator: a recording refuses a kernel's first call, memory, and questions about memory") {
  const Device device = table().device;
  Numbers x(8);
  x.write(std::vector<float>(8, 1.0f));
  const AddScaled twice{8, 1, x.data, x.data};
  for (const bool loaded : {false, true}) {
    emulator::unload_all();
    if (loaded) REQUIRE(table().add_scaled.run({}, twice) == Status::ok);
    void* graph = nullptr;
    std::size_t free = 0, total = 0;
    REQUIRE(device.begin_graph({}) == Status::ok);
    CHECK(table().add_scaled.run({}, twice) == (loaded ? Status::ok : Status::failed));
    CHECK(device.free_bytes(&free, &total) == Status::failed);
    CHECK(table().memory.allocate(64) == nullptr);
    REQUIRE(device.end_graph({}, &graph, nullptr) == Status::ok);
    device.release_graph(graph);
  }
}

TEST_CASE("cuda emulator: a smaller launch leaves a recorded one its shared memory") {
  const Device device = table().device;
  Numbers x(64), y(64);
  x.write(std::vector<float>(64, 1.0f));
  const auto run = [&](std::size_t shared) { return launch({}, {1, 64, shared}, reverse, x.data, y.data, true); };
  const int before = emulator::raised_limits();
  REQUIRE(run(40 * 1024) == Status::ok);
  CHECK(emulator::raised_limits() == before);
  REQUIRE(run(50 * 1024) == Status::ok);
  void* graph = nullptr;
  REQUIRE(device.begin_graph({}) == Status::ok);
  REQUIRE(run(90 * 1024) == Status::ok);
  REQUIRE(device.end_graph({}, &graph, nullptr) == Status::ok);
  REQUIRE(run(60 * 1024) == Status::ok);
  REQUIRE(device.launch_graph({}, graph) == Status::ok);  // the emulator ends the program where the limit is too low
  CHECK(emulator::raised_limits() == before + 1);
  device.release_graph(graph);
}

TEST_CASE("cuda emulator: a launch beyond a kernel's limit of shared memory ends the program") {
  const int status = outcome([] { emulator::check_shared(&table(), 49 * 1024); });
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT));
}

TEST_CASE("bf16 rounds to nearest, ties to even") {
  CHECK(to_float(to_bf16(1.0f)) == 1.0f);
  CHECK(to_float(to_bf16(1.00390625f)) == 1.0f);        // halfway to the next, 1 + 2^-7: the even one
  CHECK(to_float(to_bf16(1.01171875f)) == 1.015625f);   // halfway between 1 + 2^-7 and 1 + 2^-6
  CHECK(to_float(to_bf16(1.00390637f)) == 1.0078125f);  // just above halfway
  CHECK(to_float(to_bf16(-3.3895314e38f)) == -3.3895314e38f);
  CHECK(std::isinf(to_float(to_bf16(3.4e38f))));
  CHECK(std::isnan(to_float(to_bf16(std::nanf("")))));
}

}  // namespace comera::kernels::cuda
