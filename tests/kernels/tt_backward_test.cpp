// The kernels of a TT layer's backward on CUDA in both element types, against sums in double that carry their error
// bounds.
#include "kernels/cuda/tt_linear/tt_backward.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <vector>

#include "tests/kernels/harness/bounds.h"
#include "tests/kernels/harness/device_numbers.h"
#include "tests/kernels/harness/tt_outputs.h"

namespace comera::kernels::cuda {
namespace {

using Output = test::OutputShape;

struct Shape {
  std::int64_t tokens, in;
  std::vector<Output> outputs;
  Activation activation = Activation::none;
  bool has_x = true, wants_dx = true, adds_dx = true;
  int across = 1;  // tiles of columns per warp in the first kernel
  int teams = 1;   // of a block

  std::int64_t width() const { return test::width_of(outputs); }
};

// A number and the error bound of a kernel's result.
struct Sum {
  double value = 0, error = 0, magnitude = 0;

  void add(double factor, const Sum& other) {
    value += factor * other.value, error += std::abs(factor) * other.error, magnitude += std::abs(factor * other.value);
  }
  // Adds the error of a sum of `terms` terms in f32, in any order.
  void summed(std::int64_t terms) { error += magnitude * static_cast<double>(terms + 1) * 0x1p-24; }
  // Adds the error of rounding to T. The kernel may round in the other direction than `value`.
  void rounded(double unit) { error += 2 * unit * std::abs(value); }
};
using Sums = std::vector<Sum>;

double slope(Activation activation, double x) {
  if (activation == Activation::none) return 1;
  const double logistic = 1 / (1 + std::exp(-x));
  if (activation == Activation::silu) return logistic + x * logistic * (1 - logistic);
  return 0.5 * std::erfc(-x * std::sqrt(0.5)) + x * std::exp(-0.5 * x * x) / std::sqrt(2 * 3.14159265358979323846);
}

template <class T>
class Layer {
 public:
  explicit Layer(Shape shape) : s_(std::move(shape)) {
    t1_ = rounded<T>(normal(s_.tokens * s_.width(), 1, 1)), left_ = rounded<T>(normal(s_.in * s_.width(), 2, 0.2));
    x_ = rounded<T>(normal(s_.tokens * s_.in, 3, 1)), dx_ = rounded<T>(normal(s_.tokens * s_.in, 4, 1)),
    d_left_ = normal(s_.in * s_.width(), 5, 1);
    for (const Output& o : s_.outputs) {
      right_.push_back(rounded<T>(normal(o.rank * o.out, 6, 0.5))), bias_.push_back(normal(o.out, 7, 1));
      dy_.push_back(rounded<T>(normal(s_.tokens * o.out, 8, 1))), d_right_.push_back(normal(o.rank * o.out, 9, 1));
      d_bias_.push_back(normal(o.out, 10, 1));
    }
  }

  struct Answer {
    Floats u1, dx, d_left;
    std::vector<Floats> d_right, d_bias;
    bool operator==(const Answer&) const = default;
  };

  // Calls the kernels with the cut of the shape, or calls the op, which chooses the cut for a model.
  Answer call(bool by_op = false) const {
    const DeviceNumbers<T> t1(t1_), left(left_), x(x_), dx(s_.adds_dx ? dx_ : Floats(dx_.size(), NAN)),
        u1(Floats(t1_.size(), NAN));
    const DeviceNumbers<float> d_left(d_left_);
    std::vector<std::unique_ptr<DeviceNumbers<T>>> rights, dys;
    std::vector<std::unique_ptr<DeviceNumbers<float>>> biases, d_rights, d_biases;
    TtLinearBackward a;
    a.tokens = s_.tokens, a.in = a.lddx = a.ldx = s_.in, a.width = s_.width(), a.activation = s_.activation;
    a.t1 = t1.data(), a.left = left.data(), a.u1 = u1.data(), a.accumulate_dx = s_.adds_dx,
    a.outputs = static_cast<int>(s_.outputs.size());
    if (s_.has_x) a.x = x.data(), a.d_left = d_left.data();
    if (s_.wants_dx) a.dx = dx.data();
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < s_.outputs.size(); offset += s_.outputs[i++].rank) {
      const Output& o = s_.outputs[i];
      rights.push_back(std::make_unique<DeviceNumbers<T>>(right_[i])),
          dys.push_back(std::make_unique<DeviceNumbers<T>>(dy_[i]));
      biases.push_back(std::make_unique<DeviceNumbers<float>>(bias_[i])),
          d_rights.push_back(std::make_unique<DeviceNumbers<float>>(d_right_[i]));
      d_biases.push_back(std::make_unique<DeviceNumbers<float>>(d_bias_[i]));
      TtOutput& to = a.output[i];
      to.out = to.ldy = o.out, to.rank = o.rank, to.offset = offset, to.right = rights[i]->data(),
      to.dy = dys[i]->data();
      to.d_right = d_rights[i]->data();
      if (o.bias) to.bias = biases[i]->data(), to.d_bias = d_biases[i]->data();
    }
    by_op ? run_op<T>(place().backend->tt_linear_backward, a) : run(a);
    Answer answer{u1.read(), dx.read(), d_left.read(), {}, {}};
    for (std::size_t i = 0; i < s_.outputs.size(); ++i)
      answer.d_right.push_back(d_rights[i]->read()), answer.d_bias.push_back(d_biases[i]->read());
    return answer;
  }

  void check(const Answer& answer) const {
    Sums u1(t1_.size());
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < s_.outputs.size(); offset += s_.outputs[i++].rank) check_output(answer, i, offset, u1);
    compare(answer.u1, u1);
    if (s_.wants_dx) check_dx(answer, u1);
    if (s_.has_x) check_left(answer, u1);
  }

 private:
  static constexpr double unit = sizeof(T) == 2 ? 0x1p-9 : 0x1p-24;

  void run(const TtLinearBackward& a) const {
    BackwardCut cut = cut_with<T>(a, s_.across);
    if (s_.teams == 2) {
      join_blocks<T>(a.tokens, cut, 0);
      REQUIRE(cut.left_teams == 2);
      cut.right_groups = cut.left_groups = 2;  // so that teams have several tiles, or an odd number in all
    }
    REQUIRE(can_fuse<T>(a));
    REQUIRE(fits(cut));
    Parts counted;
    const BackwardParts sizes(a, cut, counted);
    Context context = context_of<T>();
    const DeviceNumbers<float> workspace(Floats(counted.bytes() / sizeof(float) + 1, NAN));
    context.workspace = workspace.data(), context.workspace_bytes = counted.bytes();
    REQUIRE(backward_in_passes<T>(context, a, cut) == Status::ok);
  }

  static void compare(const Floats& got, const Sums& wanted) {
    REQUIRE(got.size() == wanted.size());
    test::Bounds bounds;
    for (std::size_t i = 0; i < got.size(); ++i) bounds.add(std::abs(got[i] - wanted[i].value), wanted[i].error);
    REQUIRE(bounds.hold(sizeof(T) == 2 ? "tt_linear_backward bf16" : "tt_linear_backward f32", place().name,
                        std::to_string(got.size()) + " numbers"));
  }

  // d_pre as a term of sums, and as a factor of products.
  Sum d_pre(std::size_t i, std::int64_t offset, std::int64_t k, std::int64_t n) const {
    const Output& o = s_.outputs[i];
    const float dy = dy_[i][static_cast<std::size_t>(k * o.out + n)];
    Sum pre;
    if (s_.activation == Activation::none) return {dy, 0, std::abs(dy)};
    for (std::int64_t r = 0; r < o.rank; ++r) pre.add(t1_[k * s_.width() + offset + r], {right_[i][r * o.out + n]});
    if (o.bias) pre.add(1, {bias_[i][static_cast<std::size_t>(n)]});
    pre.summed(o.rank + 1);
    const double value = dy * slope(s_.activation, pre.value);
    // The slopes' own slopes are below 0.8. The functions in a slope are accurate to 16 units, those of bf16 to 6e-7.
    return {value, std::abs(dy) * (0.8 * pre.error + (sizeof(T) == 2 ? 6e-7 : 16 * 0x1p-24)), std::abs(value)};
  }

  void check_output(const Answer& answer, std::size_t i, std::int64_t offset, Sums& u1) const {
    const Output& o = s_.outputs[i];
    Sums d_right, d_bias;
    for (float x : d_right_[i]) d_right.push_back({x, 0, std::abs(x)});
    for (float x : d_bias_[i]) d_bias.push_back({x, 0, std::abs(x)});
    for (std::int64_t k = 0; k < s_.tokens; ++k)
      for (std::int64_t n = 0; n < o.out; ++n) {
        Sum d = d_pre(i, offset, k, n);
        if (o.bias) d_bias[static_cast<std::size_t>(n)].add(1, d);
        if (s_.activation != Activation::none) d.rounded(unit);
        for (std::int64_t r = 0; r < o.rank; ++r) {
          d_right[r * o.out + n].add(t1_[k * s_.width() + offset + r], d);
          u1[k * s_.width() + offset + r].add(right_[i][r * o.out + n], d);
        }
      }
    for (Sum& sum : d_right) sum.summed(s_.tokens);
    for (Sum& sum : d_bias) sum.summed(s_.tokens);
    for (std::int64_t k = 0; k < s_.tokens; ++k)
      for (std::int64_t r = 0; r < o.rank; ++r)
        u1[k * s_.width() + offset + r].summed(o.out), u1[k * s_.width() + offset + r].rounded(unit);
    compare(answer.d_right[i], d_right);
    compare(answer.d_bias[i], d_bias);
  }

  void check_dx(const Answer& answer, const Sums& u1) const {
    Sums dx;
    for (std::int64_t k = 0; k < s_.tokens; ++k)
      for (std::int64_t m = 0; m < s_.in; ++m) {
        Sum sum;
        if (s_.adds_dx) sum.add(1, {dx_[k * s_.in + m]});
        for (std::int64_t r = 0; r < s_.width(); ++r) sum.add(left_[m * s_.width() + r], u1[k * s_.width() + r]);
        sum.summed(s_.width() + 1), sum.rounded(unit);
        dx.push_back(sum);
      }
    compare(answer.dx, dx);
  }

  void check_left(const Answer& answer, const Sums& u1) const {
    Sums d_left;
    for (std::int64_t m = 0; m < s_.in; ++m)
      for (std::int64_t r = 0; r < s_.width(); ++r) {
        Sum sum;
        sum.add(1, {d_left_[m * s_.width() + r]});
        for (std::int64_t k = 0; k < s_.tokens; ++k) sum.add(x_[k * s_.in + m], u1[k * s_.width() + r]);
        sum.summed(s_.tokens + 1);
        d_left.push_back(sum);
      }
    compare(answer.d_left, d_left);
  }

  Shape s_;
  Floats t1_, left_, x_, dx_, d_left_;
  std::vector<Floats> right_, bias_, dy_, d_right_, d_bias_;
};

// Sets the shared memory of the largest GPUs in the emulator while an object lives.
struct LargeGpu {
  LargeGpu() { emulator::set_shared_limit(227 * 1024); }
  ~LargeGpu() { emulator::set_shared_limit(before); }
  std::size_t before = emulator::shared_limit();
};

template <class T>
void check_shape(const Shape& s) {
  const LargeGpu large;
  const Layer<T> layer(s);
  const auto answer = layer.call();
  layer.check(answer);
  for (const emulator::Order order : {emulator::Order::falling, emulator::Order::shuffled}) {
    emulator::set_order(order);
    const bool same = layer.call() == answer;
    emulator::set_order(emulator::Order::rising);
    CHECK(same);
  }
}

// Ranks of two strips, several slices on both sides, rows that end inside a tile; q, k and v; a bias alone; groups of
// more tiles than are in flight at once.
const Shape wide_ranks{37, 328, {{264, 48}, {24, 16}}, Activation::gelu},
    shared_left{40, 72, {{64, 32}, {64, 16, false}, {72, 48}}},
    bias_alone{33, 16, {{16, 0}, {8, 16}}, Activation::silu},
    groups{1060, 136, {{272, 32}}, Activation::gelu, true, true, false},
    four{40, 24, {{64, 32}, {64, 32}, {64, 32}, {32, 32}}}, one_strip{70, 328, {{264, 32}}, Activation::none},
    widest_rank{20, 24, {{40, 528}, {24, 16}}},  // beyond the blocks of the products on the CPU
    first_layer{40, 24, {{40, 32}}, Activation::none, true, false}, no_x{40, 24, {{40, 32}}, Activation::none, false};

template <class T>
void check_shapes() {
  for (const Shape& s : {wide_ranks, shared_left, bias_alone, groups, four, one_strip, first_layer, no_x})
    check_shape<T>(s);
}

}  // namespace

// Abramowitz and Stegun state an error of 1.5e-7; rounding in f32 adds to it.
TEST_CASE("tt_linear: the normal distribution in the bf16 kernels") {
  for (float x = -12; x <= 12; x += 0x1p-9f) {
    const Normal n = normal_of(x);
    REQUIRE(std::abs(n.cdf - 0.5 * std::erfc(-x * std::sqrt(0.5))) <= 3e-7);
    REQUIRE(std::abs(n.density - std::exp(-0.5 * x * x) / std::sqrt(2 * 3.14159265358979323846)) <= 2e-7);
  }
}

TEST_CASE("tt_linear: the kernels of the backward in f32") { check_shapes<float>(); }

TEST_CASE("tt_linear: the kernels of the backward in bf16") { check_shapes<Bf16>(); }

TEST_CASE("tt_linear: wide slices of the backward in bf16") {
  Shape s = groups;
  s.across = 2, s.outputs[0].out = 520;
  check_shape<Bf16>(s);
}

TEST_CASE("tt_linear: two teams of a block in the backward in bf16") {
  for (Shape s : {wide_ranks, shared_left, groups, four, one_strip, first_layer, no_x}) {
    s.teams = 2;
    check_shape<Bf16>(s);
  }
}

TEST_CASE("tt_linear in bf16, every backend: the backward") {
  for (const test::Column& column : test::columns()) {
    if (!column.has_bf16()) continue;
    INFO(column.name);
    const OnColumn on(column);
    for (const Shape& s :
         {wide_ranks, shared_left, bias_alone, groups, four, one_strip, first_layer, no_x, widest_rank}) {
      const Layer<Bf16> layer(s);
      const auto answer = layer.call(true);
      layer.check(answer);
      CHECK(layer.call(true) == answer);
    }
  }
}

// One block with two teams has the work of two that would share a processor: half as many sums.
TEST_CASE("tt_linear: the backward's blocks have two teams where a GPU has the memory") {
  TtLinearBackward a;
  a.tokens = 4096, a.in = 3072, a.width = 32, a.outputs = 1, a.output[0].out = a.output[0].ldy = 3072,
  a.output[0].rank = 32;
  const float x = 0;
  a.x = &x;
  const auto groups = [&](int teams, std::int64_t wanted) {
    const BackwardCut cut = cut_of<Bf16>(a);
    CHECK((cut.right_teams == teams && cut.left_teams == teams));
    CHECK((cut.right_groups == wanted && cut.left_groups == wanted));
  };
  groups(1, 22);
  const LargeGpu large;
  groups(2, 11);
  CHECK(cut_of<float>(a).right_teams == 1);
  a.tokens = 128;  // processors are idle anyway
  groups(1, 4);
}

// If the parts of U1 would fill the cache, there are fewer of them. This requires a GPU with enough shared memory.
TEST_CASE("tt_linear: the backward's slices are wide for many tokens") {
  TtLinearBackward a;
  a.tokens = 65536, a.in = 768, a.width = 32, a.outputs = 1, a.output[0].out = a.output[0].ldy = 3072,
  a.output[0].rank = 32;
  CHECK(cut_of<Bf16>(a).across == 1);
  const LargeGpu large;
  CHECK(cut_of<Bf16>(a).across == 2);
  CHECK(cut_of<Bf16>(a).right_slices == 6);
  a.activation = Activation::gelu;
  CHECK(cut_of<Bf16>(a).across == 1);
  a.activation = Activation::none;
  a.tokens = 4096;
  CHECK(cut_of<Bf16>(a).across == 1);
}

}  // namespace comera::kernels::cuda
