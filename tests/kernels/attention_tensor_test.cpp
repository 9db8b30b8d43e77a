// Attention in bf16 against the reference, on the CUDA emulator, on the GPU if there is one, and on the CPU if it has
// bf16 kernels. The table of cases (attention_test.cpp) runs f32. The CUDA kernels use tensor cores for the shapes that
// allow it.
//
// Let P be the probabilities times the dropout factors. The products have factors that are rounded to bf16, with a
// relative error of at most u = 2^-8 (8 bits of significand, to nearest). Their result is rounded once more when
// it is stored. All else is f32, for which Tracked derives the bound e. So to first order
//   |out - exact| <= e + u sum_j |P_j v_j| + u |exact|
// and with dS = P (dP - delta), the other rounded factor, likewise
//   dQ: e + u sum_j |scale dS_j k_j| + u |exact|
//   dK: e + u sum_t |scale dS_t q_t| + u |exact|
//   dV: e + u sum_t |P_t dO_t| + u |exact|
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "kernels/cuda/attention/attention_tensor_backward.h"
#include "kernels/cuda/attention/attention_tensor_forward.h"
#include "kernels/reference/attention.h"
#include "tests/kernels/harness/bounds.h"
#include "tests/kernels/harness/call.h"
#include "tests/kernels/harness/harness.h"

namespace comera::kernels::cuda {
namespace {

using test::Column;
using test::Tracked;
using Doubles = std::vector<double>;

constexpr double unit = 0x1p-8, f32_unit = 0x1p-24;
constexpr double second_order = 1.01;  // products of two of these errors are below u times the bound
constexpr double underflow = 1e-36;

enum class Range { all, causal, padded, scattered };  // scattered: some ranges begin late, some are empty

struct Shape {
  std::int64_t batch, queries, keys, heads, key_heads, head_size;
  Range range = Range::all;
  double dropout = 0;
  std::int64_t gap = 0;  // between rows of every tensor
  bool on_tensor_cores = true;

  std::int64_t rows() const { return batch * queries; }
  std::int64_t key_rows() const { return batch * keys; }
  std::int64_t columns() const { return heads * head_size; }
  std::int64_t key_columns() const { return key_heads * head_size; }
};

// Rows of X in device memory, with guards around them and gaps between them. All bytes outside the data are 0xFF, a NaN
// in every format.
template <class X>
class Rows {
 public:
  Rows(const Column& column, std::int64_t rows, std::int64_t columns, std::int64_t gap,
       const std::vector<X>& values = {})
      : column_(column),
        rows_(rows),
        columns_(columns),
        ld_(columns + gap),
        bytes_((rows * ld_ + 2 * guard) * sizeof(X)),
        start_(bytes_, 0xFF) {
    for (std::int64_t r = 0; r < rows && !values.empty(); ++r)
      std::memcpy(start_.data() + offset(r), values.data() + r * columns,
                  static_cast<std::size_t>(columns) * sizeof(X));
    data_ = static_cast<std::uint8_t*>(memory().allocate(bytes_));
    REQUIRE(memory().upload(context(), data_, start_.data(), bytes_) == Status::ok);
  }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;
  ~Rows() { memory().release(data_, bytes_); }

  X* data() const { return reinterpret_cast<X*>(data_) + guard; }
  // Returns the current rows. Everything around them must be unchanged.
  std::vector<X> read() const {
    std::vector<std::uint8_t> now(bytes_);
    REQUIRE(memory().download(context(), now.data(), data_, bytes_) == Status::ok);
    std::vector<X> values(static_cast<std::size_t>(rows_ * columns_));
    for (std::int64_t r = 0; r < rows_; ++r) {
      const std::size_t size = static_cast<std::size_t>(columns_) * sizeof(X);
      std::memcpy(values.data() + r * columns_, now.data() + offset(r), size);
      std::memset(now.data() + offset(r), 0xFF, size);
    }
    CHECK(now == std::vector<std::uint8_t>(bytes_, 0xFF));
    return values;
  }

 private:
  static constexpr std::int64_t guard = 64;
  std::size_t offset(std::int64_t row) const { return static_cast<std::size_t>(guard + row * ld_) * sizeof(X); }
  const Memory& memory() const { return column_.backend->memory; }
  Context context() const { return {DType::bf16, column_.stream, nullptr, 0}; }
  const Column& column_;
  std::int64_t rows_, columns_, ld_;
  std::size_t bytes_;
  std::vector<std::uint8_t> start_;
  std::uint8_t* data_;
};

std::vector<Bf16> elements(const Floats& values) {
  std::vector<Bf16> all;
  for (float x : values) all.push_back(to_bf16(x));
  return all;
}
Floats floats(const std::vector<Bf16>& elements) {
  Floats all;
  for (Bf16 x : elements) all.push_back(to_float(x));
  return all;
}
std::vector<Tracked> tracked(const Floats& values) {
  std::vector<Tracked> all;
  for (float x : values) all.emplace_back(static_cast<double>(x));
  return all;
}

// Inputs of a call.
struct Problem {
  Shape s;
  Floats q, k, v, d_out;
  std::vector<std::int32_t> begin, end;
  std::vector<std::int64_t> samples;
  StepScalars scalars;

  explicit Problem(const Shape& s)
      : s(s),
        q(numbers(s.rows() * s.columns(), 1)),
        k(numbers(s.key_rows() * s.key_columns(), 2)),
        v(numbers(s.key_rows() * s.key_columns(), 3)),
        d_out(numbers(s.rows() * s.columns(), 4)) {
    scalars.seed = 1234, scalars.step = 56;
    for (std::int64_t b = 0; b < s.batch; ++b) {
      samples.push_back(7 * b + (b == 1 ? std::int64_t{1} << 33 : 0));
      for (std::int64_t t = 0; t < s.queries; ++t) add_range(b, t);
    }
  }

  // Fills the arguments of a call. Rows are `gap` apart; the pointers are readable by the backend.
  template <class Args>
  Args args(std::int64_t gap, const std::int32_t* from, const std::int32_t* to, const StepScalars* step,
            const std::int64_t* sample) const {
    Args a;
    AttentionShape& shape = a.shape;
    shape.batch = s.batch, shape.queries = s.queries, shape.keys = s.keys, shape.heads = s.heads,
    shape.key_heads = s.key_heads;
    shape.head_size = s.head_size, shape.scale = 1 / std::sqrt(static_cast<double>(s.head_size));
    if (s.range == Range::scattered) shape.key_begin = from;
    if (s.range != Range::all) shape.key_end = to;
    a.ldq = a.ld_out = s.columns() + gap, a.ldk = a.ldv = s.key_columns() + gap;
    if (s.dropout > 0) a.dropout.probability = s.dropout, a.dropout.site = 3, a.dropout.tokens_per_sample = s.queries;
    if (s.dropout > 0) a.dropout.scalars = step, a.dropout.samples = sample;
    return a;
  }
  template <class Args>
  Args host_args() const {
    return args<Args>(0, begin.data(), end.data(), &scalars, samples.data());
  }

 private:
  void add_range(std::int64_t b, std::int64_t t) {
    const std::int64_t causal = s.keys - s.queries + t + 1, padded = s.keys - 2 * b;
    const std::int64_t first = (37 * t + b) % s.keys, length = (53 * t + b) % (s.keys + 1);
    begin.push_back(static_cast<std::int32_t>(s.range == Range::scattered ? first : 0));
    end.push_back(static_cast<std::int32_t>(s.range == Range::causal   ? causal
                                            : s.range == Range::padded ? padded
                                                                       : std::min(s.keys, first + length)));
  }
};

// Per element: sums of absolute products for the sums with a rounded factor.
struct Sizes {
  Doubles out, dq, dk, dv;
};

double dot(const float* x, const float* y, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]) * y[i];
  return sum;
}

// Results of the reference. `stored_out` and `stored_lse` are inputs of the backward.
struct Wanted {
  std::vector<Tracked> out, lse, dq, dk, dv;
  Floats stored_out, stored_lse;
  Sizes sizes;

  explicit Wanted(const Problem& p)
      : out(p.q.size()), lse(static_cast<std::size_t>(p.s.batch * p.s.heads * p.s.queries)) {
    auto q = tracked(p.q), k = tracked(p.k), v = tracked(p.v), d_out = tracked(p.d_out);
    auto forward = p.host_args<AttentionForward>();
    forward.q = q.data(), forward.k = k.data(), forward.v = v.data(), forward.out = out.data(),
    forward.lse = lse.data();
    test::compute_tracked(forward);
    for (const Tracked& x : out) stored_out.push_back(to_float(to_bf16(static_cast<float>(x.value))));
    for (const Tracked& x : lse) stored_lse.push_back(static_cast<float>(x.value));
    auto given_out = tracked(stored_out), given_lse = tracked(stored_lse);
    dq.resize(p.q.size()), dk.resize(p.k.size()), dv.resize(p.v.size());
    auto backward = p.host_args<AttentionBackward>();
    backward.q = q.data(), backward.k = k.data(), backward.v = v.data(), backward.out = given_out.data(),
    backward.lse = given_lse.data();
    backward.d_out = d_out.data(), backward.dq = dq.data(), backward.dk = dk.data(), backward.dv = dv.data();
    test::compute_tracked(backward);
    measure(p, backward);
  }

 private:
  void measure(const Problem& p, const AttentionBackward& a) {
    sizes = {Doubles(out.size()), Doubles(dq.size()), Doubles(dk.size()), Doubles(dv.size())};
    const AttentionShape& s = a.shape;
    reference::for_each_row(s, [&](const reference::AttentionRow& row) {
      const std::int64_t at = row.query_at(s, a.ldq);
      const double delta = dot(&p.d_out[at], &stored_out[at], s.head_size);
      for (std::int64_t j = row.first; j < row.last; ++j) {
        const std::int64_t k_at = row.key_at(s, a.ldk, j);
        const double weight = std::exp(s.scale * dot(&p.q[at], &p.k[k_at], s.head_size) - stored_lse[row.lse_at(s)]);
        const double factor = row.factor(a.dropout, j), dp = factor * dot(&p.d_out[at], &p.v[k_at], s.head_size);
        const double ds = s.scale * weight * std::abs(dp - delta);
        for (std::int64_t i = 0; i < s.head_size; ++i) {
          sizes.out[at + i] += weight * factor * std::abs(p.v[k_at + i]);
          sizes.dq[at + i] += ds * std::abs(p.k[k_at + i]);
          sizes.dk[k_at + i] += ds * std::abs(p.q[at + i]);
          sizes.dv[k_at + i] += weight * factor * std::abs(p.d_out[at + i]);
        }
      }
    });
  }
};

// `stored` is the rounding error of the stored result, 0 for f32.
void compare(const Column& column, const char* name, const Floats& got, const std::vector<Tracked>& wanted,
             const Doubles& sizes, double stored) {
  test::Bounds bounds;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const Tracked& x = wanted[i];
    const double bound = second_order * (x.roundings * f32_unit * x.magnitude + unit * (sizes.empty() ? 0 : sizes[i]) +
                                         stored * std::abs(x.value));
    const double error = std::abs(got[i] - x.value);
    bounds.add(error, bound + underflow);
    if (error <= bound + underflow) continue;
    INFO(name << "[" << i << "] is " << got[i] << ", wanted " << x.value << " within " << bound);
    REQUIRE(error <= bound);
  }
  test::print_share(bounds.largest(), std::string("attention bf16, ") + name, column.name,
                    std::to_string(wanted.size()) + " numbers");
}

// The problem in the device memory of a column, and calls of its kernels.
class OnDevice {
 public:
  OnDevice(const Column& column, const Problem& p)
      : column_(column),
        p_(p),
        q_(query_rows(elements(p.q))),
        k_(key_rows(elements(p.k))),
        v_(key_rows(elements(p.v))),
        begin_(column, 1, count(p.begin), 0, p.begin),
        end_(column, 1, count(p.end), 0, p.end),
        samples_(column, 1, count(p.samples), 0, p.samples),
        scalars_(column, 1, 1, 0, {p.scalars}) {}

  struct Forward {
    Floats out, lse;
  };
  Forward forward() const {
    const Rows<Bf16> out = query_rows();
    const Rows<float> lse(column_, p_.s.batch * p_.s.heads, p_.s.queries, 0);
    auto a = args<AttentionForward>();
    a.out = out.data(), a.lse = lse.data();
    CHECK(takes_tensor_cores(a) == p_.s.on_tensor_cores);
    run(column_.backend->attention_forward, a);
    return {floats(out.read()), lse.read()};
  }

  struct Backward {
    Floats dq, dk, dv;
  };
  Backward backward(const Wanted& given) const {
    const Rows<Bf16> out = query_rows(elements(given.stored_out)), d_out = query_rows(elements(p_.d_out));
    const Rows<Bf16> dq = query_rows(), dk = key_rows(), dv = key_rows();
    const Rows<float> lse(column_, p_.s.batch * p_.s.heads, p_.s.queries, 0, given.stored_lse);
    auto a = args<AttentionBackward>();
    a.out = out.data(), a.d_out = d_out.data(), a.lse = lse.data(), a.dq = dq.data(), a.dk = dk.data(),
    a.dv = dv.data();
    CHECK(takes_tensor_cores(a) == p_.s.on_tensor_cores);
    run(column_.backend->attention_backward, a);
    return {floats(dq.read()), floats(dk.read()), floats(dv.read())};
  }

 private:
  template <class X>
  static std::int64_t count(const std::vector<X>& values) {
    return static_cast<std::int64_t>(values.size());
  }
  Rows<Bf16> query_rows(const std::vector<Bf16>& values = {}) const {
    return {column_, p_.s.rows(), p_.s.columns(), p_.s.gap, values};
  }
  Rows<Bf16> key_rows(const std::vector<Bf16>& values = {}) const {
    return {column_, p_.s.key_rows(), p_.s.key_columns(), p_.s.gap, values};
  }
  template <class Args>
  Args args() const {
    Args a = p_.args<Args>(p_.s.gap, begin_.data(), end_.data(), scalars_.data(), samples_.data());
    a.q = q_.data(), a.k = k_.data(), a.v = v_.data();
    return a;
  }
  template <class Args>
  void run(const Op<Args>& op, const Args& a) const {
    Context context{DType::bf16, column_.stream, nullptr, 0};
    context.workspace_bytes = op.workspace_bytes ? op.workspace_bytes(context, a) : 0;
    const Rows<std::uint8_t> workspace(column_, 1, static_cast<std::int64_t>(context.workspace_bytes), 0);
    context.workspace = workspace.data();
    REQUIRE(op.run(context, a) == Status::ok);
    REQUIRE(wait_for(*column_.backend, context) == Status::ok);
    workspace.read();
  }

  const Column& column_;
  const Problem& p_;
  Rows<Bf16> q_, k_, v_;
  Rows<std::int32_t> begin_, end_;
  Rows<std::int64_t> samples_;
  Rows<StepScalars> scalars_;
};

template <class Answer>
bool same_bits(const Answer& a, const Answer& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(a[0])) == 0;
}

void check_forward(const Column& column, const Problem& p, const Wanted& wanted) {
  const OnDevice on_device(column, p);
  const auto answer = on_device.forward();
  compare(column, "out", answer.out, wanted.out, wanted.sizes.out, unit);
  Floats lse = answer.lse;
  for (std::size_t i = 0; i < lse.size(); ++i)
    if (wanted.lse[i].magnitude == 0) lse[i] = 0;  // a row without keys: unspecified
  compare(column, "lse", lse, wanted.lse, {}, 0);
  const auto again = [&] {
    const auto other = on_device.forward();
    CHECK(same_bits(other.out, answer.out));
    CHECK(same_bits(other.lse, answer.lse));
  };
  again();
  for (const auto& vary : column.variations) vary(), again();
}

void check_backward(const Column& column, const Problem& p, const Wanted& wanted) {
  const OnDevice on_device(column, p);
  const auto answer = on_device.backward(wanted);
  compare(column, "dq", answer.dq, wanted.dq, wanted.sizes.dq, unit);
  compare(column, "dk", answer.dk, wanted.dk, wanted.sizes.dk, unit);
  compare(column, "dv", answer.dv, wanted.dv, wanted.sizes.dv, unit);
  const auto again = [&] {
    const auto other = on_device.backward(wanted);
    CHECK(same_bits(other.dq, answer.dq));
    CHECK(same_bits(other.dk, answer.dk));
    CHECK(same_bits(other.dv, answer.dv));
  };
  again();
  for (const auto& vary : column.variations) vary(), again();
}

void check(const Shape& s) {
  const Problem p(s);
  const Wanted wanted(p);
  for (const Column& column : test::columns()) {
    if (!column.has_bf16()) continue;
    INFO(column.name << " B=" << s.batch << " Tq=" << s.queries << " Tk=" << s.keys << " Hq=" << s.heads
                     << " Hkv=" << s.key_heads << " D=" << s.head_size << " range " << static_cast<int>(s.range)
                     << " dropout " << s.dropout << " gap " << s.gap);
    check_forward(column, p, wanted);
    check_backward(column, p, wanted);
  }
}

}  // namespace

TEST_CASE("attention in bf16, every backend: lengths around a tile, with and without dropout") {
  for (const double dropout : {0.0, 0.1}) {
    check({2, 1, 1, 2, 2, 64, Range::all, dropout});
    check({1, 7, 7, 2, 1, 64, Range::causal, dropout});
    check({3, 16, 16, 2, 2, 64, Range::padded, dropout});
    check({1, 65, 65, 2, 2, 64, Range::causal, dropout});
    check({2, 128, 128, 1, 1, 64, Range::padded, dropout});
    check({1, 200, 200, 1, 1, 64, Range::scattered, dropout});
    check({2, 300, 100, 2, 2, 64, Range::scattered, dropout});
    check({1, 170, 128, 2, 2, 24, Range::scattered, dropout});
  }
}

TEST_CASE("attention in bf16, every backend: head sizes, with padding between the compiled ones") {
  for (const std::int64_t head_size : {8, 16, 32, 40, 96, 128}) check({1, 33, 70, 2, 1, head_size, Range::causal, 0.1});
  for (const std::int64_t head_size : {8, 32, 40}) check({1, 33, 70, 2, 2, head_size, Range::causal, 0.1});
  check({1, 65, 200, 2, 2, 128, Range::scattered, 0.1});
}

TEST_CASE("attention in bf16, every backend: one query, grouped heads") {
  check({2, 1, 200, 4, 2, 64, Range::padded});
  check({2, 20, 37, 6, 2, 64, Range::scattered, 0.3});
}

TEST_CASE("attention in bf16, every backend: rows apart, and shapes without tensor cores") {
  check({2, 20, 37, 2, 1, 64, Range::scattered, 0.1, 8});
  check({2, 40, 37, 2, 2, 64, Range::scattered, 0.1, 8});
  check({2, 20, 37, 2, 1, 64, Range::scattered, 0.1, 3, false});
  check({1, 20, 37, 2, 1, 20, Range::all, 0.1, 0, false});
  check({1, 9, 20, 1, 1, 136, Range::all, 0, 0, false});
}

}  // namespace comera::kernels::cuda
