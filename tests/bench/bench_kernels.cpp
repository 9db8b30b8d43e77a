// Times single ops of the CPU backend under every instruction set of the machine. One row per op: median wall and
// processor milliseconds, GFLOP/s, and the share of the machine's peak under that set. A loop of multiply-adds in
// registers measures the peak after each op, because clock rates change. GFLOP/s and share use the processor time per
// thread, which other programs on the machine disturb least.
//   bench_kernels [threads] [text that names must contain] [isa, or all]
#include <immintrin.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "kernels/backend.h"
#include "kernels/host/cpu_backend.h"
#include "kernels/host/thread_pool.h"
#include "kernels/linear.h"
#include "kernels/muon.h"
#include "kernels/tt_cores.h"
#include "kernels/tt_linear.h"

namespace {

using namespace comera::kernels;
using Clock = std::chrono::steady_clock;

constexpr int peak_rounds = 20000;

__attribute__((target("avx512f"))) void fma_loop_512() {
  __m512 sum[24];
  for (auto& s : sum) s = _mm512_set1_ps(1);
  const __m512 x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(0.001f);
  for (int i = 0; i < peak_rounds; ++i)
#pragma GCC unroll 24
    for (auto& s : sum) s = _mm512_fmadd_ps(s, x, y);
  for (auto& s : sum) asm volatile("" ::"v"(s));
}
__attribute__((target("avx2,fma"))) void fma_loop_256() {
  __m256 sum[12];
  for (auto& s : sum) s = _mm256_set1_ps(1);
  const __m256 x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(0.001f);
  for (int i = 0; i < peak_rounds; ++i)
#pragma GCC unroll 12
    for (auto& s : sum) s = _mm256_fmadd_ps(s, x, y);
  for (auto& s : sum) asm volatile("" ::"x"(s));
}

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }
double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}
double median_of(std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Bench {
  ThreadPool pool;
  std::vector<const Backend*> sets;
  std::string filter;
  std::vector<char> workspace;

  Bench(int threads, const std::string& isa, std::string filter) : pool(threads), filter(std::move(filter)) {
    const char* error = "this machine lacks every instruction set that the program knows";
    for (const char* name : cpu_isas)
      if (isa == "all" ? cpu_supports(name) : isa == name) sets.push_back(cpu_backend(name, &error));
    if (isa == "auto" || sets.empty()) sets.push_back(cpu_backend(isa == "all" ? "auto" : isa.c_str(), &error));
    if (sets.front()) return;
    std::fprintf(stderr, "%s\n", error);
    std::exit(2);
  }

  // True for a group of ops whose names start with `name`.
  bool wants(const std::string& name) const {
    return name.find(filter) != std::string::npos || filter.find(name) != std::string::npos;
  }

  double peak_gflops(const Backend& backend) {
    const bool wide = std::strcmp(backend.variant, "v3") != 0;
    double best = 1e9;
    for (int i = 0; i < 5; ++i) {
      const double start = processor_seconds();
      wide ? fma_loop_512() : fma_loop_256();
      best = std::min(best, processor_seconds() - start);
    }
    return 1.0 * pool.threads() * peak_rounds * (wide ? 24 * 16 : 12 * 8) * 2 / best * 1e-9;
  }

  template <class Args>
  void time(const char* name, Op<Args> Backend::*op, const Args& args) {
    if (std::string(name).find(filter) == std::string::npos) return;
    for (const Backend* backend : sets)
      if ((backend->*op).run) time_set(name, *backend, backend->*op, args);
  }

  template <class Args>
  void time_set(const char* name, const Backend& backend, const Op<Args>& op, const Args& args) {
    Context context{.stream = &pool};
    workspace.resize(64 + (op.workspace_bytes ? op.workspace_bytes(context, args) : 0));
    context.workspace = reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(workspace.data()) + 63) / 64 * 64);
    context.workspace_bytes = workspace.size() - 64;
    for (int i = 0; i < 2; ++i) op.run(context, args);
    std::vector<double> wall, processor;
    const auto begin = Clock::now();
    while (wall.size() < 5 || (wall.size() < 200 && seconds_since(begin) < 0.3)) {
      const auto start = Clock::now();
      const double processor_start = processor_seconds();
      op.run(context, args);
      processor.push_back((processor_seconds() - processor_start) / pool.threads());
      wall.push_back(seconds_since(start));
    }
    const double median = median_of(processor), gflops = flops(args) / median * 1e-9;
    std::printf("%-44s %-6s wall %9.3f ms  processor %9.3f ms  %7.1f GFLOP/s %5.1f %%  workspace %.1f MiB\n", name,
                backend.variant, median_of(wall) * 1e3, median * 1e3, gflops, 100 * gflops / peak_gflops(backend),
                static_cast<double>(context.workspace_bytes) / 1048576);
    std::fflush(stdout);
  }
};

// Aligned like the tensors of an arena.
template <class T>
struct LineAllocator {
  using value_type = T;
  T* allocate(std::size_t count) { return static_cast<T*>(std::aligned_alloc(64, (count * sizeof(T) + 63) / 64 * 64)); }
  void deallocate(T* p, std::size_t) { std::free(p); }
  bool operator==(const LineAllocator&) const { return true; }
};
using Floats = std::vector<float, LineAllocator<float>>;

Floats numbers(std::int64_t count, float scale = 1) {
  Floats v(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < v.size(); ++i)
    v[i] = scale * (static_cast<float>((i * 2654435761u >> 7) % 2001) / 1000 - 1);
  return v;
}

void tt_linear(Bench& bench, std::int64_t tokens, std::int64_t in, std::int64_t out, std::int64_t rank, int outputs,
               Activation activation, bool keeps_pre, const std::string& name) {
  if (!bench.wants(name)) return;
  const std::int64_t width = rank * outputs;
  const auto x = numbers(tokens * in), left = numbers(in * width, .05f), bias = numbers(out);
  auto t1 = numbers(tokens * width), u1 = t1, dx = x, d_left = left;
  std::vector<Floats> right(outputs, numbers(rank * out, .3f)), d_right = right, y(outputs, numbers(tokens * out)),
                                                                pre = y, dy = y;
  auto d_bias = bias;
  TtLinearForward f{
      .tokens = tokens,
      .in = in,
      .width = width,
      .x = x.data(),
      .ldx = in,
      .left = left.data(),
      .activation = activation,
      .t1 = t1.data(),
      .output = {},
  };
  f.outputs = outputs;
  for (int i = 0; i < outputs; ++i) {
    TtOutput& o = f.output[i];
    o.out = out, o.rank = rank, o.offset = i * rank, o.right = right[i].data(), o.bias = bias.data(), o.y = y[i].data(),
    o.ldy = out;
    o.pre = keeps_pre ? pre[i].data() : nullptr, o.dy = dy[i].data(), o.d_right = d_right[i].data(),
    o.d_bias = d_bias.data();
  }
  bench.time((name + " forward").c_str(), &Backend::tt_linear_forward, f);
  TtLinearBackward b{
      .tokens = tokens,
      .in = in,
      .width = width,
      .t1 = t1.data(),
      .left = left.data(),
      .activation = activation,
      .u1 = u1.data(),
      .dx = dx.data(),
      .lddx = in,
      .output = {},
  };
  b.outputs = outputs;
  for (int i = 0; i < outputs; ++i) b.output[i] = f.output[i];
  bench.time((name + " backward").c_str(), &Backend::tt_linear_backward, b);
  bench.time((name + " d_left").c_str(), &Backend::product,
             Product{.tokens = tokens,
                     .in = in,
                     .out = width,
                     .x = x.data(),
                     .ldx = in,
                     .g = u1.data(),
                     .ldg = width,
                     .result = d_left.data(),
                     .ld_result = width});
}

void linear(Bench& bench, std::int64_t tokens, std::int64_t in, std::int64_t out, Activation activation,
            const std::string& name) {
  if (!bench.wants(name)) return;
  const auto x = numbers(tokens * in), weight = numbers(in * out, .05f), bias = numbers(out);
  auto y = numbers(tokens * out), pre = y, dx = x, d_weight = weight, d_bias = bias;
  std::fill(pre.begin(), pre.end(),
            2.0f);  // slope near 1: the backward works in place, so repetitions must not end in subnormal numbers
  bench.time((name + " forward").c_str(), &Backend::linear_forward,
             LinearForward{.tokens = tokens,
                           .in = in,
                           .out = out,
                           .x = x.data(),
                           .ldx = in,
                           .weight = weight.data(),
                           .bias = bias.data(),
                           .activation = activation,
                           .y = y.data(),
                           .ldy = out});
  bench.time((name + " backward").c_str(), &Backend::linear_backward,
             LinearBackward{.tokens = tokens,
                            .in = in,
                            .out = out,
                            .dy = y.data(),
                            .lddy = out,
                            .pre = pre.data(),
                            .activation = activation,
                            .weight = weight.data(),
                            .dx = dx.data(),
                            .lddx = in,
                            .d_bias = d_bias.data()});
  bench.time((name + " d_weight").c_str(), &Backend::product,
             Product{.tokens = tokens,
                     .in = in,
                     .out = out,
                     .x = x.data(),
                     .ldx = in,
                     .g = y.data(),
                     .ldg = out,
                     .result = d_weight.data(),
                     .ld_result = out});
}

void attention(Bench& bench, std::int64_t batch, std::int64_t length, std::int64_t heads, std::int64_t size,
               double dropout, bool causal, const std::string& name) {
  if (!bench.wants(name)) return;
  const std::int64_t ld = 3 * heads * size, ldo = heads * size;
  const auto qkv = numbers(batch * length * ld), d_out = numbers(batch * length * ldo);
  auto out = d_out, d_qkv = qkv, lse = numbers(batch * heads * length);
  std::vector<std::int32_t> end(static_cast<std::size_t>(batch * length));
  for (std::int64_t i = 0; i < batch * length; ++i)
    end[i] = static_cast<std::int32_t>(causal ? i % length + 1 : length);
  std::vector<std::int64_t> samples(static_cast<std::size_t>(batch));
  StepScalars scalars;
  const Dropout drop{
      .probability = dropout, .site = 1, .scalars = &scalars, .samples = samples.data(), .tokens_per_sample = length};
  const AttentionShape shape{.batch = batch,
                             .queries = length,
                             .keys = length,
                             .heads = heads,
                             .key_heads = heads,
                             .head_size = size,
                             .scale = 0.125,
                             .key_end = end.data()};
  const std::int64_t width = heads * size;
  bench.time((name + " forward").c_str(), &Backend::attention_forward,
             AttentionForward{.shape = shape,
                              .q = qkv.data(),
                              .ldq = ld,
                              .k = qkv.data() + width,
                              .ldk = ld,
                              .v = qkv.data() + 2 * width,
                              .ldv = ld,
                              .dropout = drop,
                              .out = out.data(),
                              .ld_out = ldo,
                              .lse = lse.data()});
  bench.time((name + " backward").c_str(), &Backend::attention_backward,
             AttentionBackward{.shape = shape,
                               .q = qkv.data(),
                               .ldq = ld,
                               .k = qkv.data() + width,
                               .ldk = ld,
                               .v = qkv.data() + 2 * width,
                               .ldv = ld,
                               .dropout = drop,
                               .out = out.data(),
                               .ld_out = ldo,
                               .lse = lse.data(),
                               .d_out = d_out.data(),
                               .dq = d_qkv.data(),
                               .dk = d_qkv.data() + width,
                               .dv = d_qkv.data() + 2 * width});
}

// The cores of the six encoders of mnli-6enc.
struct Cores {
  std::vector<TtMatrix> matrices;
  std::vector<Floats> memory;

  float* add(std::int64_t count) {
    memory.push_back(numbers(count));
    return memory.back().data();
  }

  Cores() {
    const std::vector<std::vector<std::int64_t>> modes{
        {12, 8, 8, 8, 8, 12}, {12, 8, 8, 12, 16, 16}, {16, 16, 12, 8, 8, 12}};
    for (int layer = 0; layer < 6; ++layer)
      for (int kind : {0, 0, 0, 0, 1, 2}) matrices.push_back(matrix(modes[kind]));
  }

  TtMatrix matrix(const std::vector<std::int64_t>& modes) {
    TtMatrix t;
    t.d = t.e = 3;
    std::copy(modes.begin(), modes.end(), t.modes);
    const std::int64_t ranks[] = {1, t.modes[0], 30, 30, 30, t.modes[5], 1};
    std::copy(ranks, ranks + 7, t.ranks);
    const std::int64_t m = product_of(t.modes, 0, 3), n = product_of(t.modes, 3, 6);
    for (int i = 0; i < 6; ++i) {
      t.cores[i] = add(ranks[i] * t.modes[i] * ranks[i + 1]);
      t.d_cores[i] = add(ranks[i] * t.modes[i] * ranks[i + 1]);
      if (i == 5) continue;
      t.diagonals[i] = add(ranks[i + 1]);
      t.d_diagonals[i] = add(ranks[i + 1]);
    }
    t.left = add(m * 32), t.ld_left = 32, t.right = add(32 * n), t.d_left = add(m * 32), t.d_right = add(32 * n);
    return t;
  }

  std::vector<MuonTensor> muon(const AdamwScalars& group) {
    std::vector<MuonTensor> tensors;
    for (const TtMatrix& t : matrices)
      for (int i = 0; i < t.d + t.e; ++i) {
        MuonTensor& tensor = tensors.emplace_back(muon_core(t.ranks[i], t.modes[i], t.ranks[i + 1]));
        tensor.value = const_cast<void*>(t.cores[i]), tensor.gradient = t.d_cores[i];
        tensor.momentum = add(tensor.rows * tensor.columns), tensor.scalars = &group;
      }
    return tensors;
  }
};

void cores(Bench& bench) {
  Cores cores;
  const int count = static_cast<int>(cores.matrices.size());
  bench.time("tt_cores 6 encoder layers merge", &Backend::tt_merge, TtMerge{cores.matrices.data(), count});
  bench.time("tt_cores 6 encoder layers merge backward", &Backend::tt_merge_backward,
             TtMergeBackward{cores.matrices.data(), count});
  const AdamwScalars group{.learning_rate = 1e-9};
  const StepScalars scalars;
  const std::vector<MuonTensor> tensors = cores.muon(group);
  bench.time("muon 6 encoder layers", &Backend::muon,
             Muon{tensors.data(), static_cast<int>(tensors.size()), 0.95, &scalars});
}

}  // namespace

int main(int argc, char** argv) {
  Bench bench(argc > 1 ? std::atoi(argv[1]) : 2, argc > 3 ? argv[3] : "all", argc > 2 ? argv[2] : "");
  for (const Backend* backend : bench.sets)
    std::printf("%s, %d threads, peak %.0f GFLOP/s\n", backend->variant, bench.pool.threads(),
                bench.peak_gflops(*backend));
  for (const std::int64_t tokens : {4096, 128}) {
    const std::string k = " K=" + std::to_string(tokens);
    tt_linear(bench, tokens, 768, 3072, 32, 1, Activation::none, false, "tt_linear 768-3072" + k);
    tt_linear(bench, tokens, 768, 3072, 32, 1, Activation::gelu, true, "tt_linear 768-3072 gelu" + k);
    tt_linear(bench, tokens, 768, 3072, 32, 1, Activation::gelu, false, "tt_linear 768-3072 gelu again" + k);
    tt_linear(bench, tokens, 3072, 768, 32, 1, Activation::none, false, "tt_linear 3072-768" + k);
    tt_linear(bench, tokens, 768, 768, 32, 3, Activation::none, false, "tt_linear 768-768x3" + k);
    linear(bench, tokens, 768, 3072, Activation::gelu, "linear 768-3072 gelu" + k);
    linear(bench, tokens, 768, 768, Activation::none, "linear 768-768" + k);
  }
  attention(bench, 32, 128, 12, 64, 0, false, "attention 32x12 T=128");
  attention(bench, 32, 128, 12, 64, 0.1, false, "attention 32x12 T=128 dropout");
  attention(bench, 1, 128, 12, 64, 0.1, false, "attention 1x12 T=128 dropout");
  attention(bench, 2, 1024, 12, 64, 0, true, "attention 2x12 T=1024 causal");
  attention(bench, 64, 40, 12, 64, 0.1, false, "attention 64x12 T=40 dropout");
  cores(bench);
}
