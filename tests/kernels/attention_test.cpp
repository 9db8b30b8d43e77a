#include "kernels/attention.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/kernels/harness/cases.h"

namespace comera::kernels::test {
namespace {

constexpr std::int64_t bias_rows = 6;  // no distance has the last one

enum class Range { all, causal, padded, scattered };  // scattered: some ranges begin late, some are empty

struct Shape {
  std::int64_t batch, queries, keys, heads, key_heads, head_size;
  Range range = Range::all;
  double dropout = 0;
  bool packed = false, keeps_lse = true, full = false;
  std::int64_t gap = 0;
  bool biased = false;

  std::int64_t query_columns() const { return heads * head_size; }
  std::int64_t key_columns() const { return key_heads * head_size; }
  std::string name() const {
    const char* ranges[] = {"", " causal", " padded", " scattered"};
    const auto number = [](const char* letter, std::int64_t x) {
      return std::string(letter).append(std::to_string(x));
    };
    return number("B=", batch) + number(" Tq=", queries) + number(" Tk=", keys) + number(" Hq=", heads) +
           number(" Hkv=", key_heads) + number(" D=", head_size) + ranges[static_cast<int>(range)] +
           (dropout > 0 ? " dropout" : "") + (packed ? " packed" : "") + (keeps_lse ? "" : " no lse") +
           (gap ? " gaps" : "") + (biased ? " biased" : "");
  }
};

AttentionShape describe(const Shape& s, Run& r) {
  AttentionShape a;
  a.batch = s.batch, a.queries = s.queries, a.keys = s.keys, a.heads = s.heads, a.key_heads = s.key_heads,
  a.head_size = s.head_size;
  a.scale = 1 / std::sqrt(static_cast<double>(s.head_size));
  if (s.range == Range::scattered) a.key_begin = r.ints("begin");
  if (s.range != Range::all) a.key_end = r.ints("end");
  if (s.biased) a.bias = r.in("bias"), a.bias_row = r.ints("bias rows"), a.bias_rows = bias_rows;
  return a;
}

// q, k and v are separate tensors, or columns of one packed tensor.
template <class Args>
void take_inputs(const Shape& s, Run& r, Args& a) {
  a.shape = describe(s, r);
  a.dropout = r.dropout("drop");
  const std::int64_t row = s.query_columns() + 2 * s.key_columns() + s.gap;
  a.ldq = s.packed ? row : s.query_columns() + s.gap, a.ldk = a.ldv = s.packed ? row : s.key_columns() + s.gap;
  a.ld_out = s.query_columns() + s.gap;
  a.q = s.packed ? r.in("qkv") : r.in("q");
  a.k = s.packed ? r.in_at("qkv", s.query_columns()) : r.in("k");
  a.v = s.packed ? r.in_at("qkv", s.query_columns() + s.key_columns()) : r.in("v");
}

AttentionForward forward_of(const Shape& s, Run& r) {
  AttentionForward a;
  take_inputs(s, r, a);
  a.out = r.out("out"), a.lse = s.keeps_lse ? r.out("lse") : nullptr;
  return a;
}

AttentionBackward backward_of(const Shape& s, Run& r) {
  AttentionBackward a;
  take_inputs(s, r, a);
  a.out = r.in("out"), a.lse = s.keeps_lse ? r.in("lse") : nullptr, a.d_out = r.in("d_out");
  a.dq = s.packed ? r.out("d_qkv") : r.out("d_q");
  a.dk = s.packed ? r.out_at("d_qkv", s.query_columns()) : r.out("d_k");
  a.dv = s.packed ? r.out_at("d_qkv", s.query_columns() + s.key_columns()) : r.out("d_v");
  if (s.biased) a.d_bias = r.out("d_bias");
  return a;
}

void add_ranges(Case& c, const Shape& s) {
  std::vector<std::int64_t> begin, end;
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t t = 0; t < s.queries; ++t) {
      const std::int64_t causal = s.keys - s.queries + t + 1, padded = s.keys - 2 * b;
      const std::int64_t first = (3 * t + b) % s.keys, length = (5 * t + b) % (s.keys + 1);
      begin.push_back(s.range == Range::scattered ? first : 0);
      end.push_back(s.range == Range::causal   ? causal
                    : s.range == Range::padded ? padded
                                               : std::min(s.keys, first + length));
    }
  c.integers("begin", begin).integers("end", end);
}

void add_bias(Case& c, const Shape& s) {
  std::vector<std::int64_t> row;
  for (std::int64_t p = 0; p < s.queries + s.keys - 1; ++p) row.push_back(p * p / 3 % (bias_rows - 1));
  c.data("bias", bias_rows, s.heads).data("d_bias", bias_rows, s.heads).gradient("bias", "d_bias", true);
  c.integers("bias rows", row);
}

void add_tensor(Case& c, const Shape& s, const std::string& name, std::int64_t rows, std::int64_t columns) {
  c.data(name, rows, columns, columns + s.gap)
      .empty("d_" + name, rows, columns, columns + s.gap)
      .gradient(name, "d_" + name);
}

Case attention(const Shape& s) {
  Case c(s.name());
  c.full = s.full;
  const std::int64_t rows = s.batch * s.queries, key_rows = s.batch * s.keys;
  if (s.packed) {
    add_tensor(c, s, "qkv", rows, s.query_columns() + 2 * s.key_columns());
  } else {
    add_tensor(c, s, "q", rows, s.query_columns());
    add_tensor(c, s, "k", key_rows, s.key_columns());
    add_tensor(c, s, "v", key_rows, s.key_columns());
  }
  c.empty("out", rows, s.query_columns(), s.query_columns() + s.gap)
      .data("d_out", rows, s.query_columns(), s.query_columns() + s.gap);
  c.empty("lse", s.batch * s.heads, s.queries);
  c.tensor("lse").loose = true;
  add_ranges(c, s);
  if (s.biased) add_bias(c, s);
  std::vector<std::int64_t> samples;
  for (std::int64_t b = 0; b < s.batch; ++b) samples.push_back(7 * b + (b == 1 ? std::int64_t{1} << 33 : 0));
  if (s.dropout > 0) c.dropout("drop", s.dropout, 3, samples, s.queries);
  c.forward = [s](Run& r) { r.call(&Backend::attention_forward, [&] { return forward_of(s, r); }); };
  c.backward = [s](Run& r) { r.call(&Backend::attention_backward, [&] { return backward_of(s, r); }); };
  return c.output("out", "d_out");
}

}  // namespace

static std::vector<Case> attention_cases() {
  std::vector<Case> cases;
  for (double dropout : {0.0, 0.1}) {
    cases.push_back(attention(
        {.batch = 2, .queries = 5, .keys = 5, .heads = 2, .key_heads = 2, .head_size = 4, .dropout = dropout}));
    cases.push_back(attention({2, 7, 7, 3, 3, 8, Range::causal, dropout}));
    cases.push_back(attention({3, 9, 9, 2, 1, 16, Range::padded, dropout}));
    cases.push_back(attention({2, 6, 11, 4, 2, 5, Range::scattered, dropout}));
    cases.push_back(attention({2, 40, 40, 2, 2, 64, Range::padded, dropout, true}));
    cases.push_back(attention({1, 33, 70, 2, 1, 32, Range::causal, dropout}));
  }
  cases.push_back(attention({1, 1, 1, 1, 1, 1}));
  cases.push_back(
      attention({.batch = 2, .queries = 1, .keys = 13, .heads = 4, .key_heads = 2, .head_size = 8, .gap = 3}));
  cases.push_back(attention(
      {.batch = 2, .queries = 6, .keys = 6, .heads = 2, .key_heads = 1, .head_size = 8, .packed = true, .gap = 5}));
  cases.push_back(
      attention({.batch = 1, .queries = 4, .keys = 9, .heads = 2, .key_heads = 2, .head_size = 8, .keeps_lse = false}));
  for (const std::int64_t keys : {50, 140})
    for (const Range range : {Range::causal, Range::scattered})
      cases.push_back(attention({.batch = 2,
                                 .queries = 40,
                                 .keys = keys,
                                 .heads = 2,
                                 .key_heads = 1,
                                 .head_size = 24,
                                 .range = range,
                                 .dropout = 0.1,
                                 .keeps_lse = false}));
  cases.push_back(attention({.batch = 1, .queries = 3, .keys = 200, .heads = 1, .key_heads = 1, .head_size = 24}));
  // A single query: more keys than a block has, and columns that fill no vector or several groups of them.
  for (const std::int64_t head_size : {1, 20, 72, 128, 200}) {
    cases.push_back(attention({.batch = 2,
                               .queries = 1,
                               .keys = 300,
                               .heads = 6,
                               .key_heads = 2,
                               .head_size = head_size,
                               .range = Range::scattered,
                               .gap = 3}));
    cases.push_back(attention({2, 1, 129, 2, 2, head_size, Range::causal, 0.1, false, true, false, 0, true}));
  }
  for (const bool keeps_lse : {true, false}) {
    // Blocks of queries and keys that end in the middle, and rows that attend to nothing.
    for (const Range range : {Range::padded, Range::scattered})
      cases.push_back(attention({2, 150, 140, 2, 1, 8, range, 0.1, false, keeps_lse, false, 0, true}));
    cases.push_back(attention({3, 9, 9, 3, 3, 5, Range::padded, 0, true, keeps_lse, false, 3, true}));
  }
  for (const bool biased : {false, true})
    cases.push_back(attention({4, 128, 128, 12, 12, 64, Range::padded, 0.1, true, true, true, 0, biased}));
  return cases;
}

COMERA_TEST_CASES("attention", attention_cases)

}  // namespace comera::kernels::test
