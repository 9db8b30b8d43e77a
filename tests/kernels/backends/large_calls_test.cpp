// Large calls use code that small ones do not: packed operands, several heads per task, stores past the caches. The
// results of a row do not depend on other rows, so a large call must give the same bytes as the same work in parts.
// (Columns are multiples of 64 here, because the remaining columns are summed in an order that depends on the number of
// rows.)
#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/attention.h"
#include "kernels/backend.h"
#include "kernels/host/cpu_backend.h"
#include "kernels/host/thread_pool.h"
#include "kernels/linear.h"
#include "kernels/tt_linear.h"

namespace comera::kernels {
namespace {

using Floats = std::vector<float>;

Floats normal(std::int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> distribution;
  Floats v(static_cast<std::size_t>(count));
  for (float& x : v) x = distribution(generator);
  return v;
}
Floats nothing(std::int64_t count) { return Floats(static_cast<std::size_t>(count), -1); }

bool same_bytes(const Floats& a, const Floats& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<const Backend*> machine() {
  std::vector<const Backend*> list;
  const char* error = nullptr;
  for (const char* isa : cpu_isas)
    if (const Backend* backend = cpu_backend(isa, &error)) list.push_back(backend);
  return list;
}

template <class Args>
void run(const Op<Args>& op, const Args& args) {
  static ThreadPool pool(2);
  Context context{.stream = &pool};
  Floats workspace;
  if (op.workspace_bytes) workspace.resize(op.workspace_bytes(context, args) / sizeof(float) + 32);
  context.workspace = reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(workspace.data()) + 63) / 64 * 64);
  context.workspace_bytes = workspace.size() * sizeof(float);
  REQUIRE(op.run(context, args) == Status::ok);
}

constexpr std::int64_t tokens = 1100, part = 100, narrow = 40, wide = 2048, rank = 32;

void tt_forward(const Backend& b, std::int64_t rows, const Floats& x, const Floats& left, const Floats& right,
                Floats& y, Floats& pre, Floats& t1) {
  for (std::int64_t row = 0; row < tokens; row += rows) {
    TtLinearForward a;
    a.tokens = rows, a.in = narrow, a.width = rank, a.x = x.data() + row * narrow, a.ldx = narrow, a.left = left.data();
    a.activation = Activation::gelu, a.t1 = t1.data() + row * rank, a.outputs = 1;
    TtOutput& o = a.output[0];
    o.out = wide, o.rank = rank, o.right = right.data(), o.y = y.data() + row * wide, o.pre = pre.data() + row * wide,
    o.ldy = wide;
    run(b.tt_linear_forward, a);
  }
}

void tt_backward(const Backend& b, std::int64_t rows, const Floats& dy, const Floats& t1, const Floats& left,
                 const Floats& right, Floats& dx, Floats& u1) {
  Floats d_right = nothing(rank * narrow);
  for (std::int64_t row = 0; row < tokens; row += rows) {
    TtLinearBackward a;
    a.tokens = rows, a.in = wide, a.width = rank, a.t1 = t1.data() + row * rank, a.left = left.data(),
    a.activation = Activation::silu;
    a.u1 = u1.data() + row * rank, a.dx = dx.data() + row * wide, a.lddx = wide, a.outputs = 1;
    TtOutput& o = a.output[0];
    o.out = narrow, o.rank = rank, o.right = right.data(), o.ldy = narrow, o.dy = dy.data() + row * narrow,
    o.d_right = d_right.data();
    run(b.tt_linear_backward, a);
  }
}

struct Heads {
  static constexpr std::int64_t batch = 64, length = 40, heads = 16, size = 64, width = heads * size;
  StepScalars scalars;
  std::vector<std::int64_t> samples;
  std::vector<std::int32_t> end;
  Floats qkv = normal(batch * length * 3 * width, 1), d_out = normal(batch * length * width, 2);
  Floats out = nothing(batch * length * width), lse = nothing(batch * heads * length),
         d_qkv = nothing(batch * length * 3 * width);

  Heads() {
    for (std::int64_t b = 0; b < batch; ++b) samples.push_back(1000 - b);
    for (std::int64_t i = 0; i < batch * length; ++i) end.push_back(static_cast<std::int32_t>(length - i / length % 7));
  }
  template <class Args>
  void fill(Args& a, std::int64_t b, std::int64_t count) {
    a.shape = {.batch = count,
               .queries = length,
               .keys = length,
               .heads = heads,
               .key_heads = heads,
               .head_size = size,
               .scale = 0.125,
               .key_begin = nullptr,
               .key_end = end.data() + b * length};
    a.q = qkv.data() + b * length * 3 * width, a.k = qkv.data() + b * length * 3 * width + width,
    a.v = qkv.data() + b * length * 3 * width + 2 * width;
    a.ldq = a.ldk = a.ldv = 3 * width, a.ld_out = width;
    a.dropout = {
        .probability = 0.1, .site = 2, .scalars = &scalars, .samples = samples.data() + b, .tokens_per_sample = length};
    a.out = out.data() + b * length * width, a.lse = lse.data() + b * heads * length;
  }
  void compute(const Backend& backend, std::int64_t count) {
    for (std::int64_t b = 0; b < batch; b += count) {
      AttentionForward f;
      fill(f, b, count);
      run(backend.attention_forward, f);
      AttentionBackward g;
      fill(g, b, count);
      float* d = d_qkv.data() + b * length * 3 * width;
      g.d_out = d_out.data() + b * length * width, g.dq = d, g.dk = d + width, g.dv = d + 2 * width;
      run(backend.attention_backward, g);
    }
  }
};

}  // namespace

TEST_CASE("TT linear: a large call gives the bytes of its parts") {
  const Floats x = normal(tokens * narrow, 1), left = normal(narrow * rank, 2), right = normal(rank * wide, 3);
  for (const Backend* b : machine()) {
    INFO(b->variant);
    Floats y[2], pre[2], t1[2], dx[2], u1[2];
    for (int i : {0, 1}) {
      y[i] = pre[i] = dx[i] = nothing(tokens * wide), t1[i] = u1[i] = nothing(tokens * rank);
      tt_forward(*b, i ? part : tokens, x, left, right, y[i], pre[i], t1[i]);
      tt_backward(*b, i ? part : tokens, x, t1[0], right, left, dx[i], u1[i]);
    }
    CHECK(same_bytes(y[0], y[1]));
    CHECK(same_bytes(pre[0], pre[1]));
    CHECK(same_bytes(t1[0], t1[1]));
    CHECK(same_bytes(u1[0], u1[1]));
    CHECK(same_bytes(dx[0], dx[1]));
  }
}

TEST_CASE("linear: a large call gives the bytes of its parts") {
  const Floats x = normal(tokens * narrow, 1), weight = normal(narrow * wide, 2), bias = normal(wide, 3);
  for (const Backend* b : machine()) {
    INFO(b->variant);
    Floats y[2];
    for (int i : {0, 1}) {
      y[i] = nothing(tokens * wide);
      for (std::int64_t row = 0, rows = i ? part : tokens; row < tokens; row += rows) {
        LinearForward a;
        a.tokens = rows, a.in = narrow, a.out = wide, a.x = x.data() + row * narrow, a.ldx = narrow,
        a.weight = weight.data();
        a.bias = bias.data(), a.activation = Activation::tanh, a.y = y[i].data() + row * wide, a.ldy = wide;
        run(b->linear_forward, a);
      }
    }
    CHECK(same_bytes(y[0], y[1]));
  }
}

TEST_CASE("attention: a large batch gives the bytes of its sequences") {
  for (const Backend* b : machine()) {
    INFO(b->variant);
    Heads together, apart;
    together.compute(*b, Heads::batch);
    apart.compute(*b, 1);
    CHECK(same_bytes(together.out, apart.out));
    CHECK(same_bytes(together.lse, apart.lse));
    CHECK(same_bytes(together.d_qkv, apart.d_qkv));
  }
}

}  // namespace comera::kernels
