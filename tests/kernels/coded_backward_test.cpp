// Backwards that restore what they read from codes, or from the output of a norm, where they read it: the bytes of the
// ops that they join.
#include <cmath>

#include "kernels/attention.h"
#include "kernels/norm_output.h"
#include "tests/kernels/harness/codes.h"
#include "tests/kernels/harness/placed.h"

namespace comera::kernels::test {
namespace {

using cuda::Floats;

struct Heads {
  std::int64_t batch, tokens, heads, key_heads, size;
  int bits = 8;
  bool joined = false;  // q, k and v are columns of one tensor

  std::int64_t wide() const { return heads * size; }
  std::int64_t narrow() const { return key_heads * size; }
};

// Heads that are a group of codes, a part of one, or parts of several; the longest sequence.
const std::vector<Heads> heads = {{2, 40, 2, 2, 64},         {2, 128, 12, 12, 64, 8, true}, {1, 33, 4, 2, 16, 4, true},
                                  {3, 9, 3, 3, 5, 8, true},  {2, 7, 2, 1, 24, 16},          {1, 70, 3, 1, 80, 4},
                                  {1, 5, 1, 1, 128, 8, true}};

// The gradients of q, k and v.
std::vector<Floats> read_gradients(const cuda::Call& call, const AttentionBackward& a, const Heads& s) {
  const auto rows = static_cast<std::size_t>(s.batch * s.tokens);
  if (s.joined) return {call.read_activations(a.dq, rows * static_cast<std::size_t>(a.ldq))};
  return {call.read_activations(a.dq, rows * static_cast<std::size_t>(s.wide())),
          call.read_activations(a.dk, rows * static_cast<std::size_t>(s.narrow())),
          call.read_activations(a.dv, rows * static_cast<std::size_t>(s.narrow()))};
}

void* column_of(void* x, std::int64_t column, DType dtype) {
  return static_cast<std::byte*>(x) + static_cast<std::size_t>(column) * size_of(dtype);
}

void set_gradients(cuda::Call& call, AttentionBackward& a, const Heads& s, DType dtype) {
  const std::int64_t rows = s.batch * s.tokens, all = s.wide() + 2 * s.narrow();
  const auto empty = [&](std::int64_t columns) {
    return call.activations(Floats(static_cast<std::size_t>(rows * columns), NAN));
  };
  if (s.joined) {
    a.dq = empty(all), a.ldq = a.ldk = a.ldv = all;
    a.dk = column_of(a.dq, s.wide(), dtype), a.dv = column_of(a.dq, s.wide() + s.narrow(), dtype);
  } else {
    a.dq = empty(s.wide()), a.dk = empty(s.narrow()), a.dv = empty(s.narrow());
    a.ldq = s.wide(), a.ldk = a.ldv = s.narrow();
  }
}

void check_attention(const Heads& s, DType dtype) {
  cuda::Call call(dtype);
  const std::int64_t rows = s.batch * s.tokens;
  const auto codes_of = [&](std::int64_t columns, unsigned seed) {
    return cuda::coded(call, {rows, columns, s.bits}, call.activations(cuda::numbers(rows * columns, seed)));
  };
  std::vector<std::int32_t> ends;  // causal in the first sequence
  for (std::int64_t i = 0; i < rows; ++i) ends.push_back(static_cast<std::int32_t>(i < s.tokens ? i + 1 : s.tokens));
  AttentionBackward a;
  a.shape = {.batch = s.batch, .queries = s.tokens, .keys = s.tokens, .heads = s.heads, .key_heads = s.key_heads};
  a.shape.head_size = s.size, a.shape.scale = 1 / std::sqrt(static_cast<double>(s.size));
  a.shape.key_end = call.ints(ends);
  a.d_out = call.activations(cuda::numbers(rows * s.wide(), 5)), a.ld_out = s.wide();
  set_gradients(call, a, s, dtype);

  CodedAttentionBackward of_codes;
  of_codes.attention = a;
  of_codes.out = {codes_of(s.wide(), 4)};
  if (s.joined) {
    const CodedRows all = codes_of(s.wide() + 2 * s.narrow(), 1);
    of_codes.q = {all}, of_codes.k = {all, s.wide()}, of_codes.v = {all, s.wide() + s.narrow()};
  } else {
    of_codes.q = {codes_of(s.wide(), 1)}, of_codes.k = {codes_of(s.narrow(), 2)},
    of_codes.v = {codes_of(s.narrow(), 3)};
  }
  call.run(cuda::backend().coded_attention_backward, of_codes);

  AttentionBackward of_numbers = a;
  set_gradients(call, of_numbers, s, dtype);
  void* q = cuda::restored(call, of_codes.q.rows);
  of_numbers.q = q, of_numbers.out = cuda::restored(call, of_codes.out.rows);
  of_numbers.k = s.joined ? column_of(q, of_codes.k.first, dtype) : cuda::restored(call, of_codes.k.rows);
  of_numbers.v = s.joined ? column_of(q, of_codes.v.first, dtype) : cuda::restored(call, of_codes.v.rows);
  call.run(cuda::backend().attention_backward, of_numbers);
  CHECK(read_gradients(call, a, s) == read_gradients(call, of_numbers, s));
}

// bits of the codes of y; 0: y is in memory.
void check_norm(std::int64_t tokens, std::int64_t columns, int bits, bool layer, DType dtype) {
  cuda::Call call(dtype);
  const std::int64_t count = tokens * columns, picked = picked_columns(columns);
  const auto zeros = [](std::int64_t n) { return Floats(static_cast<std::size_t>(n)); };
  void* y = call.activations(cuda::numbers(count, 1));
  NormOutputBackward a;
  NormBackward& norm = a.norm;
  norm.kind = layer ? NormKind::layer : NormKind::rms, norm.tokens = tokens, norm.columns = columns;
  norm.dy = call.activations(cuda::numbers(count, 2)), norm.d_sum_in = call.activations(cuda::numbers(count, 3));
  norm.mean = layer ? call.f32(cuda::numbers(tokens, 4)) : nullptr;
  Floats rstd = cuda::numbers(tokens, 5);
  for (float& x : rstd) x = std::abs(x) + 1;
  norm.rstd = call.f32(rstd), norm.gain = call.f32(cuda::numbers(columns, 6));
  norm.d_sum = call.activations(zeros(count)), norm.dx = call.activations(zeros(count));
  norm.d_gain = call.f32(cuda::numbers(columns, 7)),
  norm.d_shift = layer ? call.f32(cuda::numbers(columns, 8)) : nullptr;
  std::vector<std::int32_t> places;
  for (std::int64_t c = 0; c < picked; ++c) places.push_back(static_cast<std::int32_t>(3 * c % columns));
  a.input = {.tokens = tokens, .columns = columns, .mean = norm.mean, .rstd = norm.rstd, .gain = norm.gain};
  a.input.shift = layer ? call.f32(cuda::numbers(columns, 9)) : nullptr;
  a.input.places = call.ints(places), a.input.values = call.activations(cuda::numbers(tokens * picked, 10));
  if (bits != 0) a.coded = cuda::coded(call, {tokens, columns, bits}, y);
  if (bits == 0) a.input.y = y;
  const NormOutputBackward joined = a;
  call.run(cuda::backend().norm_output_backward, a);

  NormRestore restore = joined.input;
  restore.y = bits == 0 ? y : cuda::restored(call, joined.coded);
  restore.sum = call.activations(zeros(count));
  call.run(cuda::backend().norm_restore, restore);
  NormBackward apart = norm;
  apart.sum = restore.sum, apart.d_sum = call.activations(zeros(count)), apart.dx = call.activations(zeros(count));
  apart.d_gain = call.f32(cuda::numbers(columns, 7));
  apart.d_shift = layer ? call.f32(cuda::numbers(columns, 8)) : nullptr;
  call.run(cuda::backend().norm_backward, apart);
  const auto same = [&](const void* x, const void* z) {
    return call.read_activations(x, zeros(count).size()) == call.read_activations(z, zeros(count).size());
  };
  const auto same_sums = [&](const void* x, const void* z) {
    return call.read_f32(x, zeros(columns).size()) == call.read_f32(z, zeros(columns).size());
  };
  CHECK(same(norm.d_sum, apart.d_sum));
  CHECK(same(norm.dx, apart.dx));
  CHECK(same_sums(norm.d_gain, apart.d_gain));
  if (layer) CHECK(same_sums(norm.d_shift, apart.d_shift));
}

// Calls check(dtype) on every backend that has the op.
template <class Args, class Check>
void on_backends_with(Op<Args> Backend::*op, Check check) {
  int checked = 0;
  for (const Column& column : columns()) {
    if (!(column.backend->*op).run) continue;
    const cuda::OnColumn on(column);
    for (const DType dtype : {DType::f32, DType::bf16}) {
      if (dtype == DType::bf16 && !column.has_bf16()) continue;
      CAPTURE(column.name, dtype == DType::bf16);
      check(dtype);
      ++checked;
    }
  }
  CHECK(checked > 0);
}

}  // namespace

TEST_CASE("coded_attention_backward: the bytes of the numbers in memory and a backward") {
  on_backends_with(&Backend::coded_attention_backward, [](DType dtype) {
    for (const Heads& s : heads) {
      CAPTURE(s.tokens, s.heads, s.key_heads, s.size, s.bits, s.joined);
      check_attention(s, dtype);
    }
  });
}

TEST_CASE("coded_attention_backward: heads and sequences that need the numbers in memory are refused") {
  CodedAttentionBackward a;
  AttentionShape& s = a.attention.shape;
  const auto all_refuse = [&] {
    for (const Column& column : columns()) {
      const auto& op = column.backend->coded_attention_backward;
      if (op.run && column.backend != &reference_backend())
        CHECK(op.run(context_of(column), a) == Status::unsupported_shape);
    }
  };
  s = {.batch = 1, .queries = coded_tokens + 1, .keys = 1, .heads = 1, .key_heads = 1, .head_size = 8};
  all_refuse();
  s.queries = 1, s.keys = coded_tokens + 1;
  all_refuse();
  s.keys = 1, s.head_size = coded_head + 1;
  all_refuse();
  s.head_size = 5, a.v.rows.shape.bits = 4;  // a head would begin within a byte
  all_refuse();
}

TEST_CASE("norm_output_backward: the bytes of the input in memory and a backward") {
  on_backends_with(&Backend::norm_output_backward, [](DType dtype) {
    for (const bool layer : {true, false})
      for (const int bits : {0, 4, 8, 16})
        for (const auto& [tokens, columns] : {std::pair{1, 1}, {9, 33}, {70, 129}, {300, 768}}) {
          CAPTURE(layer, bits, tokens, columns);
          check_norm(tokens, columns, bits, layer, dtype);
        }
  });
}

}  // namespace comera::kernels::test
