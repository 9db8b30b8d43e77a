// Times the memory-bound CPU ops. Each row has the bytes that the op must move, and its rate beside that of a plain
// copy of the same number of bytes, measured in turn with the op. Times are processor times per thread: minimum and
// median of the rounds.
//   bench_memory [threads] [text that names must contain] [isa]
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "kernels/adagrad.h"
#include "kernels/backend.h"
#include "kernels/cross_entropy.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/host/thread_pool.h"
#include "kernels/norm.h"
#include "kernels/optimizer.h"
#include "kernels/ttm_embedding.h"
#include "kernels/ttm_merge.h"

namespace {

using namespace comera::kernels;

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Times {
  std::vector<double> seconds;
  double least() { return *std::min_element(seconds.begin(), seconds.end()); }
  double median() {
    std::sort(seconds.begin(), seconds.end());
    return seconds[seconds.size() / 2];
  }
};

std::vector<float> numbers(std::int64_t count, float scale = 1) {
  std::vector<float> v(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < v.size(); ++i)
    v[i] = scale * (static_cast<float>((i * 2654435761u >> 7) % 2001) / 1000 - 1);
  return v;
}

class Bench {
 public:
  Bench(int threads, const char* isa, std::string filter) : pool_(threads), filter_(std::move(filter)) {
    const char* error = nullptr;
    backend = cpu_backend(isa, &error);
    if (!backend) {
      std::fprintf(stderr, "%s\n", error);
      std::exit(2);
    }
  }

  // `bytes`: bytes read and written, each tensor counted once.
  template <class Args>
  void time(const std::string& name, const Op<Args>& op, const Args& args, double bytes) {
    if (!op.run || name.find(filter_) == std::string::npos) return;
    Context context{.stream = &pool_};
    std::vector<char> workspace(op.workspace_bytes ? op.workspace_bytes(context, args) : 0);
    context.workspace = workspace.data();
    context.workspace_bytes = workspace.size();
    std::vector<char> from(static_cast<std::size_t>(bytes / 2) + 1, 1), to(from.size(), 2);
    Times op_times, copy_times;
    op.run(context, args);
    for (int round = 0; round < 15; ++round) {
      measure(op_times, [&] { op.run(context, args); });
      measure(copy_times, [&] { copy(context, from, to); });
    }
    const double rate = bytes / op_times.least() * 1e-9, copy_rate = bytes / copy_times.least() * 1e-9;
    std::printf("%-40s least %8.3f ms  median %8.3f ms  %7.1f GB/s, copy %7.1f: %5.2f of it  %7.1f GFLOP/s\n",
                name.c_str(), op_times.least() * 1e3, op_times.median() * 1e3, rate, copy_rate, rate / copy_rate,
                flops(args) / op_times.least() * 1e-9);
    std::fflush(stdout);
  }

  const Backend* backend;

 private:
  template <class Body>
  void measure(Times& times, Body body) {
    const double start = processor_seconds();
    body();
    times.seconds.push_back((processor_seconds() - start) / pool_.threads());
  }
  static void copy(const Context& context, const std::vector<char>& from, std::vector<char>& to) {
    constexpr std::size_t piece = 1 << 16;
    parallel_for(context, static_cast<std::int64_t>((from.size() + piece - 1) / piece), [&](std::int64_t i) {
      const std::size_t begin = static_cast<std::size_t>(i) * piece;
      std::memcpy(to.data() + begin, from.data() + begin, std::min(piece, from.size() - begin));
    });
  }

  ThreadPool pool_;
  std::string filter_;
};

struct Dropping {
  StepScalars scalars;
  std::vector<std::int64_t> samples;
  explicit Dropping(std::int64_t sequences) {
    for (std::int64_t i = 0; i < sequences; ++i) samples.push_back(1000 + i);
  }
  Dropout make(double p) const { return {p, 3, &scalars, samples.data(), 128}; }
};

void norms(Bench& bench, double p) {
  const std::int64_t tokens = 4096, columns = 768;
  const Dropping dropping(32);
  const auto x = numbers(tokens * columns), gain = numbers(columns);
  const auto& shift = gain;
  std::vector<float> residual(x), sum(x), y(x), dx(x), mean(4096), rstd(4096, 1.0f), d_gain(gain), d_shift(gain);
  NormForward f;
  f.tokens = tokens, f.columns = columns, f.x = x.data(), f.residual = residual.data(), f.dropout = dropping.make(p),
  f.gain = gain.data();
  f.shift = shift.data(), f.sum = sum.data(), f.mean = mean.data(), f.rstd = rstd.data(), f.y = y.data();
  const double tensor = 4.0 * tokens * columns;
  const std::string tail = p > 0 ? " dropout" : "";
  bench.time("norm_forward residual" + tail, bench.backend->norm_forward, f, 4 * tensor);
  NormBackward b;
  b.tokens = tokens, b.columns = columns, b.dy = y.data(), b.sum = sum.data(), b.mean = mean.data(),
  b.rstd = rstd.data(), b.gain = gain.data();
  b.dropout = dropping.make(p), b.d_sum = dx.data(), b.d_gain = d_gain.data(), b.d_shift = d_shift.data();
  b.dx = p > 0 ? residual.data() : nullptr;
  bench.time("norm_backward" + tail, bench.backend->norm_backward, b, (p > 0 ? 4 : 3) * tensor);
  NormApply a;
  a.tokens = tokens, a.columns = columns, a.sum = sum.data(), a.mean = mean.data(), a.rstd = rstd.data(),
  a.gain = gain.data();
  a.shift = shift.data(), a.y = y.data();
  if (p == 0) bench.time("norm_apply", bench.backend->norm_apply, a, 2 * tensor);
}

void elementwise(Bench& bench) {
  const std::int64_t count = 4096 * 3072;
  const auto x = numbers(count, 3), dy = numbers(count);
  std::vector<float> y(x);
  const double tensor = 4.0 * static_cast<double>(count);
  for (Activation activation : {Activation::gelu, Activation::silu, Activation::tanh}) {
    const std::string tail = activation == Activation::gelu   ? " gelu"
                             : activation == Activation::silu ? " silu"
                                                              : " tanh";
    bench.time("activation_forward" + tail, bench.backend->activation_forward, {activation, count, x.data(), y.data()},
               2 * tensor);
    bench.time("activation_backward" + tail, bench.backend->activation_backward,
               {activation, count, x.data(), dy.data(), y.data()}, 3 * tensor);
  }
  bench.time("add_scaled", bench.backend->add_scaled, {count, 0.5, x.data(), y.data()}, 3 * tensor);
  const Dropping dropping(32);
  bench.time("dropout", bench.backend->dropout, {dropping.make(0.1), 4096, 3072, x.data(), y.data()}, 2 * tensor);
}

void optimizer(Bench& bench, std::int64_t count, int pieces) {
  auto value = numbers(count), gradient = numbers(count), m = numbers(count),
       v = std::vector<float>(value.size(), 1.0f);
  AdamwScalars group{.learning_rate = 1e-3, .weight_decay = .01, .correction1 = .1, .correction2 = .001};
  StepScalars scalars;
  std::vector<AdamwTensor> tensors;
  std::vector<AdagradTensor> adagrad;
  std::vector<SgdTensor> sgd;
  std::vector<ConstTensor> gradients;
  for (int i = 0; i < pieces; ++i) {
    const std::int64_t begin = count * i / pieces, size = count * (i + 1) / pieces - begin;
    tensors.push_back({size, &value[begin], &gradient[begin], &m[begin], &v[begin], &group});
    adagrad.push_back({size, &value[begin], &gradient[begin], &v[begin], &group});
    sgd.push_back({size, &value[begin], &gradient[begin], &group});
    gradients.push_back({size, &gradient[begin]});
  }
  double result = 0;
  const std::string tail = " " + std::to_string(count / 1000) + "k in " + std::to_string(pieces);
  bench.time("adamw" + tail, bench.backend->adamw, {tensors.data(), pieces, &scalars},
             28.0 * static_cast<double>(count));
  bench.time("adagrad" + tail, bench.backend->adagrad,
             {.tensors = adagrad.data(), .count = pieces, .scalars = &scalars}, 20.0 * static_cast<double>(count));
  bench.time("sgd" + tail, bench.backend->sgd, {sgd.data(), pieces, &scalars}, 12.0 * static_cast<double>(count));
  bench.time("square_sum" + tail, bench.backend->square_sum, {gradients.data(), pieces, &result},
             4.0 * static_cast<double>(count));
}

void cross_entropy(Bench& bench, std::int64_t rows, std::int64_t columns) {
  auto logits = numbers(rows * columns, 4);
  std::vector<float> maximum(rows), sum(rows, 1), target(rows);
  std::vector<std::int32_t> best(rows), targets(rows, 1);
  double scale = 1;
  const std::string tail = " " + std::to_string(rows) + "x" + std::to_string(columns);
  CrossEntropyChunk c;
  c.rows = rows, c.columns = columns, c.start = true, c.logits = logits.data(), c.ld = columns,
  c.targets = targets.data();
  c.maximum = maximum.data(), c.sum = sum.data(), c.target_logit = target.data(), c.best = best.data();
  const double tensor = 4.0 * static_cast<double>(rows * columns);
  bench.time("cross_entropy_chunk" + tail, bench.backend->cross_entropy_chunk, c, tensor);
  CrossEntropyBackward b;
  b.rows = rows, b.columns = columns, b.logits = logits.data(), b.ld = columns, b.targets = targets.data();
  b.maximum = maximum.data(), b.sum = sum.data(), b.loss_scale = &scale;
  bench.time("cross_entropy_backward" + tail, bench.backend->cross_entropy_backward, b, 2 * tensor);
}

// Ids of a vocabulary with frequencies proportional to 1 / rank, spread over the table.
std::vector<std::int32_t> zipf_ids(std::int64_t count, std::int32_t vocabulary) {
  std::vector<double> cumulated(static_cast<std::size_t>(vocabulary));
  double total = 0;
  for (std::size_t i = 0; i < cumulated.size(); ++i) cumulated[i] = total += 1.0 / static_cast<double>(i + 1);
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> uniform(0, total);
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto rank = std::lower_bound(cumulated.begin(), cumulated.end(), uniform(random)) - cumulated.begin();
    ids.push_back(static_cast<std::int32_t>(rank * 7919 % vocabulary));
  }
  return ids;
}

struct Table {
  TtmTable t;
  std::vector<std::vector<float>> memory;
  float* add(std::int64_t count) {
    memory.push_back(numbers(count, .3f));
    return memory.back().data();
  }
  Table() {
    const std::int64_t m[] = {16, 20, 10, 10}, n[] = {4, 4, 8, 6}, ranks[] = {1, 32, 32, 32, 1};
    t.d = 4, t.cut = 2;
    for (int k = 0; k < 4; ++k) t.row_modes[k] = m[k], t.column_modes[k] = n[k];
    for (int k = 0; k < 5; ++k) t.ranks[k] = ranks[k];
    for (int k = 0; k < 4; ++k) {
      t.cores[k] = add(ranks[k] * m[k] * n[k] * ranks[k + 1]);
      t.d_cores[k] = add(ranks[k] * m[k] * n[k] * ranks[k + 1]);
      if (k < 3) t.diagonals[k] = add(ranks[k + 1]), t.d_diagonals[k] = add(ranks[k + 1]);
    }
    t.left = add(left_elements(t)), t.right = add(right_elements(t)), t.d_left = add(left_elements(t)),
    t.d_right = add(right_elements(t));
  }
};

void tables(Bench& bench) {
  const std::int64_t tokens = 4096, columns = 768;
  Table table;
  const auto ids = zipf_ids(tokens, 30522);
  const auto distinct = static_cast<std::int64_t>(std::set<std::int32_t>(ids.begin(), ids.end()).size());
  std::vector<float> y = numbers(tokens * columns), dense = numbers(30522 * columns);
  const Bags bags{tokens, tokens, ids.data(), nullptr};
  const double tensor = 4.0 * tokens * columns;
  const std::string tail = " " + std::to_string(distinct) + " distinct";
  bench.time("ttm_merge", bench.backend->ttm_merge, {&table.t},
             4.0 * static_cast<double>(left_elements(table.t) + right_elements(table.t)));
  bench.time("ttm_forward" + tail, bench.backend->ttm_forward, {bags, &table.t, y.data(), false}, tensor);
  bench.time("ttm_backward" + tail, bench.backend->ttm_backward,
             {bags, &table.t, y.data(), const_cast<void*>(table.t.d_left), const_cast<void*>(table.t.d_right)}, tensor);
  bench.time("ttm_merge_backward", bench.backend->ttm_merge_backward, {&table.t},
             4.0 * static_cast<double>(left_elements(table.t) + right_elements(table.t)));
  bench.time("embedding_forward" + tail, bench.backend->embedding_forward,
             {bags, 30522, columns, dense.data(), y.data(), false}, 2 * tensor);
  bench.time("embedding_backward" + tail, bench.backend->embedding_backward,
             {bags, 30522, columns, y.data(), dense.data()}, 3 * tensor);
}

}  // namespace

int main(int count, char** words) {
  Bench bench(count > 1 ? std::atoi(words[1]) : 1, count > 3 ? words[3] : "auto", count > 2 ? words[2] : "");
  norms(bench, 0);
  norms(bench, 0.1);
  elementwise(bench);
  optimizer(bench, 1'490'157, 420);
  optimizer(bench, 24'000'000, 60);
  cross_entropy(bench, 128, 30522);
  cross_entropy(bench, 4096, 3);
  tables(bench);
}
