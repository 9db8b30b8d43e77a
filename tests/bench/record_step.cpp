// Not a test: runs one training step in bf16 on the emulator of the CUDA backend and prints what each launch does, for
// scripts/cuda_cost.py.
//   record_step --model mnli-6enc --form tt --rank 30 --batch 32 --seq 128
//
// The kernels are those of the library for ThreadSanitizer: the compiler calls a function at every access to memory.
// This file defines these functions, and they count in place of looking for races. Of calls with equal arguments, all
// but pointers, only the first one runs; the others are counted.
//
// Output, columns apart by tabs: a line of names, a line per launch, and "graph" with the calls of the recorded graph.
// A kernel is the distance of its code from the program's first byte, for nm. Counts are sums over threads.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "kernels/cuda/common/runtime.h"
#include "kernels/cuda/emulator/threads.h"
#include "kernels/cuda/emulator/watch.h"
#include "kernels/reference/all.h"
#include "lib/core/error.h"
#include "lib/report/bench/bench.h"
#include "lib/train/optimizer.h"
#include "models/model_options.h"

extern "C" char __executable_start, __bss_start, _end;  // by the linker

namespace {

using namespace comera;
using namespace comera::kernels;
namespace emulator = comera::kernels::cuda::emulator;

constexpr std::uint64_t sector = 32;                       // bytes that a GPU reads or writes at least
constexpr std::uint64_t window = std::uint64_t{25} << 20;  // bytes that the second-level cache keeps: half of it

struct Launched {
  std::string kernel;
  std::int64_t ordered = 0;  // how often it may not begin early: it is no kernel, or follows a launch that is none
  emulator::dim3 grid, block;
  std::uint64_t shared_bytes = 0;
  std::uint64_t read = 0, cached = 0, written = 0;  // bytes of different sectors; cached: of those read
  std::uint64_t by_blocks = 0;                      // the same, read and written, summed over blocks
  // Bytes of all accesses: to device memory, of them by 1 or 2 bytes, and to shared memory.
  std::uint64_t accesses = 0, narrow = 0, shared = 0;
  std::uint64_t products = 0, blocks = 0;  // mma and ldmatrix
  std::uint64_t exchanges = 0, barriers = 0;
};

struct Call {
  std::string op, shape, key;
  std::int64_t count = 0;
  std::vector<Launched> launches;
};

// Memory of the device, with the last launch, and the last block, that touched each sector.
struct Slab {
  std::uintptr_t begin = 0, end = 0;
  std::vector<std::uint32_t> read = {}, written = {}, read_by = {}, written_by = {};
};

struct Thread {
  int unseen = 0;      // it exchanges operands with its warp
  bool shown = false;  // it has just exchanged them
};

class Recorder {
 public:
  void add(const void* data, std::size_t bytes) {
    Slab slab{reinterpret_cast<std::uintptr_t>(data), reinterpret_cast<std::uintptr_t>(data) + bytes};
    for (auto* stamps : {&slab.read, &slab.written, &slab.read_by, &slab.written_by})
      stamps->resize(bytes / sector + 1);
    lowest_ = std::min(lowest_, slab.begin), highest_ = std::max(highest_, slab.end);
    slabs_.push_back(std::move(slab));
  }
  void remove(const void* data) {
    std::erase_if(slabs_, [&](const Slab& slab) { return slab.begin == reinterpret_cast<std::uintptr_t>(data); });
  }

  template <class Run>
  Status call(const char* op, std::string shape, std::string key, bool repeats, Run run) {
    if (ended_) return run();
    const auto same = [&](const Call& other) { return other.op == op && other.key == key; };
    const auto found = repeats ? std::find_if(calls_.begin(), calls_.end(), same) : calls_.end();
    if (found != calls_.end()) {
      ++found->count;
      for (Launched& launch : found->launches) follow(launch);
      return Status::ok;
    }
    calls_.push_back({op, std::move(shape), std::move(key), 1, {}});
    open_ = true;
    const Status status = run();
    open_ = false;
    return status;
  }
  void end_step() { ended_ = true; }
  bool has_ended() const { return ended_; }

  void begin_launch() {
    if (!open_) return;
    now_ = {};
    moved_.push_back(moved_.back());
    ++blocks_;
    before_ = emulator::counts;
    watching_ = true;
  }
  void end_launch() {
    if (!std::exchange(watching_, false)) return;
    const emulator::Queued& ended = emulator::latest_call();
    if (ended.kernel) {
      now_.kernel = fmt::format("{:x}", static_cast<const char*>(ended.kernel) - &__executable_start);
      now_.grid = emulator::gridDim, now_.block = emulator::blockDim, now_.shared_bytes = ended.shared_bytes;
    }
    now_.read += ended.read, now_.written += ended.written;
    now_.exchanges = emulator::counts.exchanges - before_.exchanges;
    now_.barriers = emulator::counts.barriers - before_.barriers;
    follow(now_);
    calls_.back().launches.push_back(now_);
  }

  void touch(const volatile void* data, std::size_t bytes, bool write) {
    if (!watching_ || thread->unseen > 0) return;
    const auto at = reinterpret_cast<std::uintptr_t>(data);
    if (at >= lowest_ && at < highest_)
      for (Slab& slab : slabs_)
        if (at >= slab.begin && at < slab.end) return touch(slab, at - slab.begin, bytes, write);
    // Most accesses are to a thread's own stack, above this call.
    constexpr std::uintptr_t most_stack = 64 << 10;
    if (at - reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) < most_stack || !is_shared(at)) return;
    now_.shared += bytes;
    // An exchange of operands whose thread then reads elements of shared memory loads blocks of a matrix.
    if (!write && bytes == 2 && std::exchange(thread->shown, false)) ++now_.blocks, --now_.products;
  }
  void shown() {
    thread->shown = true;
    ++now_.products;
  }

  void print(std::int64_t graph) const {
    fmt::print(
        "op\tshape\tcount\tordered\tkernel\tgrid\tblock\tdynamic_shared\tread\tcached\twritten\tby_"
        "blocks\taccesses\tnarrow\tshared\t"
        "products\tblocks\texchanges\tbarriers\n");
    for (const Call& call : calls_)
      for (const Launched& l : call.launches)
        fmt::print("{}\t{}\t{}\t{}\t{}\t{}x{}x{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\n", call.op,
                   call.shape, call.count, l.ordered, l.kernel.empty() ? "-" : l.kernel, l.grid.x, l.grid.y, l.grid.z,
                   l.block.x * l.block.y * l.block.z, l.shared_bytes, l.read, l.cached, l.written, l.by_blocks,
                   l.accesses, l.narrow, l.shared, l.products, l.blocks, l.exchanges, l.barriers);
    fmt::print("graph\t{}\n", graph);
  }

  Thread first_thread, *thread = &first_thread;

 private:
  void follow(Launched& launch) {
    launch.ordered += launch.kernel.empty() || !after_kernel_ ? 1 : 0;
    after_kernel_ = !launch.kernel.empty();
  }
  void touch(Slab& slab, std::uint64_t offset, std::size_t bytes, bool write) {
    now_.accesses += bytes;
    if (bytes <= 2) now_.narrow += bytes;
    const emulator::dim3& b = emulator::blockIdx;
    if (b.x != block_.x || b.y != block_.y || b.z != block_.z) block_ = b, ++blocks_;
    const auto launch = static_cast<std::uint32_t>(moved_.size() - 1);
    for (std::uint64_t i = offset / sector; i <= (offset + bytes - 1) / sector && i < slab.read.size(); ++i) {
      std::uint32_t& by = write ? slab.written_by[i] : slab.read_by[i];
      if (std::exchange(by, blocks_) != blocks_) now_.by_blocks += sector;
      const std::uint32_t last = std::max(slab.read[i], slab.written[i]);
      if (write && slab.written[i] != launch) {
        now_.written += sector;
        slab.written[i] = launch;
        if (last != launch) moved_.back() += sector;
      } else if (!write && last != launch) {
        now_.read += sector;
        if (last > 0 && moved_[launch - 1] - moved_[last - 1] < window) now_.cached += sector;
        slab.read[i] = launch;
        moved_.back() += sector;
      }
    }
  }
  static bool is_shared(std::uintptr_t at) {
    const auto within = [&](const void* begin, std::size_t bytes) {
      return at - reinterpret_cast<std::uintptr_t>(begin) < bytes;
    };
    if (within(emulator::dynamic_shared(), emulator::latest_call().shared_bytes)) return true;
    if (!within(&__bss_start, static_cast<std::size_t>(&_end - &__bss_start))) return false;
    const emulator::dim3* const indices[] = {&emulator::threadIdx, &emulator::blockIdx, &emulator::blockDim,
                                             &emulator::gridDim};
    return std::none_of(std::begin(indices), std::end(indices),
                        [&](const emulator::dim3* index) { return within(index, sizeof *index); });
  }

  std::vector<Slab> slabs_;
  std::uintptr_t lowest_ = UINTPTR_MAX, highest_ = 0;  // of the slabs
  std::vector<Call> calls_;
  std::vector<std::uint64_t> moved_{0, 0};  // bytes of different sectors since the beginning, after each launch
  Launched now_;
  emulator::Counts before_;
  emulator::dim3 block_;
  std::uint32_t blocks_ = 0;  // number of the running block, over all launches
  bool open_ = false, watching_ = false, ended_ = false;
  bool after_kernel_ = false;  // the latest launch of the step was a kernel
};

Recorder& recorder() {
  static Recorder one;
  return one;
}

const Backend& real() { return kernels::cuda::table(); }

// The bytes of a call's arguments with all pointers and sites of dropout equal. User addresses are those between 2^32
// and 2^47.
template <class Args>
std::string key_of(Args args) {
  if constexpr (requires { args.dropout.site; }) args.dropout.site = 0;
  if constexpr (requires { args.output_dropout.site; }) args.output_dropout.site = 0;
  std::vector<std::uint64_t> words((sizeof args + 7) / 8);
  std::memcpy(words.data(), &args, sizeof args);
  for (std::uint64_t& word : words)
    if (word >> 32 != 0 && word >> 47 == 0) word = 1;
  return {reinterpret_cast<const char*>(words.data()), words.size() * 8};
}

template <class Args>
std::string shape_of(const Args&) {
  return "";
}
template <class Args>
std::string tt_shape(const Args& a) {
  const TtOutput& first = a.output[0];
  const std::string several = a.outputs > 1 ? fmt::format("{} x ", a.outputs) : "";
  return fmt::format("{} x {} -> {}{}/{}", a.tokens, a.in, several, first.out, first.rank);
}
std::string shape_of(const TtLinearForward& a) { return tt_shape(a); }
std::string shape_of(const TtLinearBackward& a) { return tt_shape(a); }
std::string shape_of(const NormForward& a) { return fmt::format("{} x {}", a.tokens, a.columns); }
std::string shape_of(const NormBackward& a) { return fmt::format("{} x {}", a.tokens, a.columns); }
std::string heads_of(const AttentionShape& s) {
  return fmt::format("{} x {} of {} x {}", s.batch, s.heads, s.queries, s.head_size);
}
std::string shape_of(const AttentionForward& a) { return heads_of(a.shape); }
std::string shape_of(const AttentionBackward& a) { return heads_of(a.shape); }

// Calls of a layer have no pointers to arrays of sizes, which a key does not see.
template <class Args>
constexpr bool in_every_layer =
    std::is_same_v<Args, TtLinearForward> || std::is_same_v<Args, TtLinearBackward> ||
    std::is_same_v<Args, NormForward> || std::is_same_v<Args, NormBackward> || std::is_same_v<Args, NormApply> ||
    std::is_same_v<Args, AttentionForward> || std::is_same_v<Args, AttentionBackward> ||
    std::is_same_v<Args, LinearForward> || std::is_same_v<Args, LinearBackward>;

// Numbers of layers that did not run are not finite. The update would then end at once.
void let_update(const Context& context, const StepScalars* scalars) {
  const double finite = 1;
  real().memory.upload(context, const_cast<double*>(&scalars->finite), &finite, sizeof finite);
}

// A step that decays; others end at once (scripts/cuda_cost.py counts the share of the steps).
template <class Args>
Args with_work(const Args& args) {
  return args;
}
template <>
ChainDecay with_work(const ChainDecay& args) {
  ChainDecay every = args;
  every.every = 1;
  return every;
}

template <class Args, Op<Args> Backend::*op>
Status recorded(const Context& context, const Args& given) {
  const Op<Args>& known = real().*op;
  const Args args = with_work(given);
  if constexpr (std::is_same_v<Args, Adamw> || std::is_same_v<Args, ChainDecay>)
    if (!recorder().has_ended()) let_update(context, args.scalars);
  const std::string earlier = context.earlier ? key_of(*context.earlier) : "";
  return recorder().call(known.name, shape_of(args), key_of(args) + earlier, in_every_layer<Args>,
                         [&] { return known.run(context, args); });
}

Backend recording_backend() {
  Backend made = real();
#define COMERA_OP(name, Args) \
  if (made.name.run) made.name.run = recorded<Args, &Backend::name>;
#include "kernels/ops.def"
  made.memory.allocate = [](std::size_t bytes) {
    void* const data = real().memory.allocate(bytes);
    if (data) recorder().add(data, bytes);
    return data;
  };
  made.memory.release = [](void* data, std::size_t bytes) {
    recorder().remove(data);
    real().memory.release(data, bytes);
  };
  made.device.joules = nullptr;  // with a counter of energy a bench repeats steps for a second
  // The second step is recorded, which counts its calls, and is not run.
  made.device.begin_graph = [](const Context& context) {
    recorder().end_step();
    return real().device.begin_graph(context);
  };
  made.device.launch_graph = [](const Context&, void*) { return Status::ok; };
  return made;
}

OptionTable options() {
  OptionTable table("record_step", "print the launches of one training step");
  table.add(models::model_options())
      .add({{.name = "batch", .type = OptionType::integer, .default_text = "32", .help = "sequences", .minimum = 1},
            {.name = "seq", .type = OptionType::integer, .default_text = "128", .help = "tokens", .minimum = 1},
            {.name = "optimizer", .type = OptionType::string, .default_text = "adamw", .help = "the update"}});
  return table;
}

void record(const OptionValues& values) {
  emulator::set_shared_limit(std::size_t{227} << 10);  // of the GPUs of the model in scripts/cuda_cost.py
  models::DataFacts facts;
  facts.max_length = values.integer("seq");
  const models::ModelSpec spec = models::spec_from_options(values, facts);
  const Backend backend = recording_backend();
  const plan::Machine machine{&backend, DType::bf16, nullptr};
  engine::EngineOptions how;
  how.update =
      train::optimizer({.weight_norm_decay = 1,
                        .methods = {.rules = {{.glob = "", .method = train::default_method(values.text("form"))}}}});
  engine::Engine engine(machine, models::factory_of(spec, machine.dtype), how);
  emulator::set_watcher([](emulator::Moment moment) {
    moment == emulator::Moment::begin ? recorder().begin_launch() : recorder().end_launch();
  });
  const report::BenchOptions bench{
      .warmup = 0, .repetitions = 1, .batch = values.integer("batch"), .length = values.integer("seq"), .parts = false};
  const std::vector<report::BenchRow> rows =
      report::time_steps(engine, models::common(spec).task, models::common(spec).vocabulary,
                         static_cast<std::int64_t>(models::common(spec).labels.size()), bench);
  recorder().print(rows[0].launches.value_or(0));
}

}  // namespace

// The compiler calls these functions under -fsanitize=thread.
extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
#define COMERA_ACCESS(bytes)                                                              \
  void __tsan_read##bytes(void* data) { recorder().touch(data, bytes, false); }           \
  void __tsan_write##bytes(void* data) { recorder().touch(data, bytes, true); }           \
  void __tsan_unaligned_read##bytes(void* data) { recorder().touch(data, bytes, false); } \
  void __tsan_unaligned_write##bytes(void* data) { recorder().touch(data, bytes, true); }
COMERA_ACCESS(1)
COMERA_ACCESS(2)
COMERA_ACCESS(4)
COMERA_ACCESS(8)
COMERA_ACCESS(16)
#undef COMERA_ACCESS
void __tsan_read_range(void* data, std::size_t bytes) { recorder().touch(data, bytes, false); }
void __tsan_write_range(void* data, std::size_t bytes) { recorder().touch(data, bytes, true); }
char __tsan_atomic8_load(const volatile char* data, int) { return *data; }
// The emulator's threads (emulator/races.h).
void* __tsan_create_fiber(unsigned) { return new Thread; }
void* __tsan_get_current_fiber() { return recorder().thread; }
void __tsan_switch_to_fiber(void* thread, unsigned) { recorder().thread = static_cast<Thread*>(thread); }
void __tsan_acquire(void*) {}
void __tsan_release(void*) {}
void AnnotateIgnoreReadsBegin(const char*, int) { ++recorder().thread->unseen; }
void AnnotateIgnoreReadsEnd(const char*, int) {
  --recorder().thread->unseen;
  recorder().shown();
}
void AnnotateIgnoreWritesBegin(const char*, int) {}
void AnnotateIgnoreWritesEnd(const char*, int) {}
}

int main(int argc, char** argv) {
  try {
    const OptionTable table = options();  // the values refer to it
    const ParsedCommand command = parse_command(table, {argv + 1, argv + argc});
    if (command.print) return fmt::print("{}", *command.print), 0;
    record(command.values);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "record_step: {}\n", error.what());
    return 2;
  }
}
