// Runs the threads of a block as fibers, with barriers and warp exchanges.
#include "kernels/cuda/emulator/threads.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/cuda/emulator/races.h"
#include "kernels/cuda/emulator/watch.h"

// Saves the callee-saved registers on the current stack and continues on the other. System V ABI, x86-64.
extern "C" void comera_switch_fiber(void** from, void* to);
asm(R"(
.text
.type comera_switch_fiber, @function
comera_switch_fiber:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size comera_switch_fiber, .-comera_switch_fiber
)");

namespace comera::kernels::cuda::emulator {
namespace {

constexpr int warp_size = 32, every_lane = -1;
constexpr std::size_t stack_bytes = 192 * 1024;
// Stacks begin at different distances from the end of their pages; otherwise the threads of a block would share a few
// sets of the processor's caches. An odd number of cache lines spreads them over all sets.
constexpr std::size_t stack_shift = 9 * 64, stack_shifts = 113;

// Two tokens in turn: a thread that leaves a barrier late must not acquire the accesses of the next one.
struct Tokens {
  char turn[2] = {};
  char& at(unsigned generation) { return turn[generation % 2]; }
};

struct Warp {
  unsigned alive = 0, arrived = 0;  // lanes
  unsigned generation[warp_size] = {};
  std::uint64_t value[warp_size] = {};     // given to an exchange
  int source[warp_size] = {};              // the lane whose value each lane wants, or every_lane
  std::uint64_t received[warp_size] = {};  // from the lane's last exchange
};

struct Fiber {
  void* stack = nullptr;
  void* top = nullptr;  // stack pointer where it continues
  dim3 index;
  bool done = false;
  void* thread = nullptr;  // races.h
};

struct Grid {
  std::vector<Fiber> fibers;  // stacks are reused by later launches
  std::vector<Warp> warps;
  std::vector<int> order;
  std::vector<std::uint8_t> shared;
  unsigned threads = 0, alive = 0, arrived = 0, generation = 0;
  unsigned begun = 0;  // threads of the block that have called begin_kernel
  unsigned turn = 0;   // position in `order` of the current thread
  int current = 0;
  bool progress = false;
  void *scheduler = nullptr, *scheduler_thread = nullptr;
  Tokens barrier, warp_barrier[1024 / warp_size];
  char block_begins = 0, block_ends = 0;
  void (*body)(void*) = nullptr;
  void* data = nullptr;
  Order wanted = Order::rising;
  std::mt19937 random{1};
};

Grid grid_state;

[[noreturn]] void stop(const char* sentence) {
  std::fprintf(stderr, "[cuda emulator] block (%u, %u, %u): %s\n", blockIdx.x, blockIdx.y, blockIdx.z, sentence);
  std::abort();
}

void switch_to_turn(void** from) {
  Grid& g = grid_state;
  g.current = g.order[g.turn];
  const Fiber& fiber = g.fibers[g.current];
  threadIdx = fiber.index;
  races::switch_to(fiber.thread);
  comera_switch_fiber(from, fiber.top);
}

// Continues with the next thread of the order, or with the scheduler after the last thread has ended.
void leave() {
  Grid& g = grid_state;
  Fiber& fiber = g.fibers[g.current];
  if (g.alive == 0) {
    races::switch_to(g.scheduler_thread);
    comera_switch_fiber(&fiber.top, g.scheduler);
  }
  do {
    if (++g.turn < g.threads) continue;
    if (!g.progress) stop("threads wait at a barrier, or for a lane of their warp, that others never reach");
    g.turn = 0;
    g.progress = false;
  } while (g.fibers[g.order[g.turn]].done);
  if (g.order[g.turn] != g.current) switch_to_turn(&fiber.top);
}

Warp& own_warp() { return grid_state.warps[grid_state.current / warp_size]; }

bool open_block() {
  Grid& g = grid_state;
  if (g.arrived < g.alive) return false;
  g.arrived = 0;
  ++g.generation;
  return g.progress = true;
}

// What each lane of an exchange receives: the value of its source, or its own if the source takes no part.
void deliver(Warp& warp, unsigned lanes) {
  unsigned set = 0;
  for (int i = 0; i < warp_size; ++i)
    if (lanes >> i & 1 && warp.value[i] != 0) set |= 1u << i;
  for (int i = 0; i < warp_size; ++i) {
    if ((lanes >> i & 1) == 0) continue;
    const int source = warp.source[i];
    warp.received[i] = source == every_lane ? set : warp.value[lanes >> source & 1 ? source : i];
  }
}

// Lanes that have ended do not count. The last lane that arrives delivers for all: after that, each lane may give its
// next value.
bool open_warp(Warp& warp, unsigned mask) {
  const unsigned lanes = mask & warp.alive;
  if ((warp.arrived & lanes) != lanes) return false;
  warp.arrived &= ~mask;
  deliver(warp, lanes);
  for (int i = 0; i < warp_size; ++i) warp.generation[i] += mask >> i & 1;
  return grid_state.progress = true;
}

void fiber_main() {
  Grid& g = grid_state;
  races::acquire(g.block_begins);
  g.body(g.data);
  races::release(g.block_ends);
  g.fibers[g.current].done = g.progress = true;
  own_warp().alive &= ~(1u << (g.current % warp_size));
  --g.alive;
  leave();
  std::abort();
}

// Prepares the stack of a new fiber: six registers, then the entry address, with the alignment of a call.
void begin(Fiber& fiber) {
  if (!fiber.stack) {
    fiber.stack = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fiber.stack == MAP_FAILED) stop("no memory for the stack of a thread");
    fiber.thread = races::new_thread();
  }
  const auto index = static_cast<std::size_t>(&fiber - grid_state.fibers.data());
  const std::size_t end = stack_bytes - index % stack_shifts * stack_shift;
  auto* top = reinterpret_cast<void**>(static_cast<char*>(fiber.stack) + end) - 2;
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(&fiber_main);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  fiber.top = top;
  fiber.done = false;
}

void choose_order() {
  Grid& g = grid_state;
  g.order.resize(g.threads);
  for (unsigned i = 0; i < g.threads; ++i)
    g.order[i] = static_cast<int>(g.wanted == Order::falling ? g.threads - 1 - i : i);
  if (g.wanted == Order::shuffled) std::shuffle(g.order.begin(), g.order.end(), g.random);
}

void start_block() {
  Grid& g = grid_state;
  g.alive = g.threads;
  g.arrived = g.begun = 0;
  g.warps.assign((g.threads + warp_size - 1) / warp_size, Warp{});
  std::fill(g.shared.begin(), g.shared.end(), 0xFF);
  for (unsigned i = 0; i < g.threads; ++i) {
    Fiber& fiber = g.fibers[i];
    begin(fiber);
    fiber.index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
    g.warps[i / warp_size].alive |= 1u << (i % warp_size);
  }
  choose_order();
  races::release(g.block_begins);
}

void run_block() {
  Grid& g = grid_state;
  start_block();
  g.turn = 0;
  g.progress = false;
  switch_to_turn(&g.scheduler);
  races::acquire(g.block_ends);
  if (g.begun != g.threads) stop("a kernel does not begin with begin_kernel()");
}

}  // namespace

constexpr std::size_t shared_alignment = 128;  // of a block's shared memory: enough for every vector type
std::size_t most_shared = 99 * 1024;           // per block, on the smallest GPU that the build supports

void set_order(Order order) { grid_state.wanted = order; }
void set_shared_limit(std::size_t bytes) { most_shared = bytes; }
std::size_t shared_limit() { return most_shared; }

void run_grid(dim3 grid, dim3 block, std::size_t shared_bytes, void (*body)(void*), void* data) {
  Grid& g = grid_state;
  g.threads = block.x * block.y * block.z;
  if (g.threads == 0 || g.threads > 1024 || grid.y > 65535 || grid.z > 65535 || shared_bytes > most_shared)
    stop("no GPU takes such a launch");
  if (g.fibers.size() < g.threads) g.fibers.resize(g.threads);
  g.shared.resize(shared_bytes + shared_alignment);
  g.scheduler_thread = races::this_thread();
  g.body = body;
  g.data = data;
  gridDim = grid;
  blockDim = block;
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = {x, y, z};
        run_block();
      }
}

void count_begin() { ++grid_state.begun; }

int lane() { return grid_state.current % warp_size; }

void wait_for_block() {
  Grid& g = grid_state;
  ++counts.barriers;
  const unsigned generation = g.generation;
  races::release(g.barrier.at(generation));
  ++g.arrived;
  g.progress = true;
  while (!open_block()) {
    leave();
    if (g.generation != generation) break;
  }
  races::acquire(g.barrier.at(generation));
}

void meet_warp(unsigned mask) {
  Warp& warp = own_warp();
  const int own = lane();
  if ((mask >> own & 1) == 0) stop("a thread takes part in a warp exchange whose mask leaves it out");
  const unsigned generation = warp.generation[own];
  warp.arrived |= 1u << own;
  grid_state.progress = true;
  while (!open_warp(warp, mask)) {
    leave();
    if (warp.generation[own] != generation) return;
  }
}

void wait_for_warp(unsigned mask) {
  char& token = grid_state.warp_barrier[grid_state.current / warp_size].at(own_warp().generation[lane()]);
  races::release(token);
  meet_warp(mask);
  races::acquire(token);
}

std::uint64_t exchange(unsigned mask, std::uint64_t value, int from_lane) {
  Warp& warp = own_warp();
  const int own = lane();
  ++counts.exchanges;
  warp.value[own] = value;
  warp.source[own] = from_lane >= 0 && from_lane < warp_size ? from_lane : own;
  meet_warp(mask);
  return warp.received[own];
}

unsigned ballot(unsigned mask, bool predicate) {
  Warp& warp = own_warp();
  const int own = lane();
  ++counts.exchanges;
  warp.value[own] = predicate ? 1 : 0;
  warp.source[own] = every_lane;
  meet_warp(mask);
  return static_cast<unsigned>(warp.received[own]);
}

void* dynamic_shared() {
  const auto first = reinterpret_cast<std::uintptr_t>(grid_state.shared.data());
  return reinterpret_cast<void*>((first + shared_alignment - 1) / shared_alignment * shared_alignment);
}

}  // namespace comera::kernels::cuda::emulator
