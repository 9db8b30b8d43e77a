// The fused forward of a TT layer on CUDA in both element types, against sums in double. The table of cases
// (tt_linear_test.cpp) runs it in f32 if the op chooses it.
#include "kernels/cuda/tt_linear/tt_fused.h"

#include <catch2/catch.hpp>
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
  std::int64_t gap = 0;  // between rows of x; 1 prevents reads of 16 bytes in the fused path

  std::int64_t width() const { return test::width_of(outputs); }
};

double gelu(double x) { return 0.5 * x * std::erfc(-x * std::sqrt(0.5)); }

// A layer of shape `s`; T1, pre and y of a call, and their check.
template <class T>
struct Layer {
  Shape s;
  Activation activation;
  Floats x, left;
  std::vector<Floats> right, bias;

  Layer(Shape shape, Activation activation) : s(std::move(shape)), activation(activation) {
    x = rounded<T>(normal(s.tokens * s.in, 1, 1)), left = rounded<T>(normal(s.in * s.width(), 2, 0.2));
    for (const Output& o : s.outputs)
      right.push_back(rounded<T>(normal(o.rank * o.out, 3, 0.5))), bias.push_back(normal(o.out, 4, 1));
  }

  struct Answer {
    Floats t1;
    std::vector<Floats> pre, y;
  };
  // Calls the op of the table, or the fused path alone, which must support the shape.
  Answer call(bool fused_alone, const Floats* given_t1 = nullptr) const {
    const std::int64_t ldx = s.in + s.gap;
    Floats spaced(static_cast<std::size_t>(s.tokens * ldx), NAN);
    for (std::int64_t k = 0; k < s.tokens; ++k) std::copy_n(x.begin() + k * s.in, s.in, spaced.begin() + k * ldx);
    const DeviceNumbers<T> device_x(spaced), device_left(left);
    const DeviceNumbers<T> t1(given_t1 ? *given_t1 : Floats(static_cast<std::size_t>(s.tokens * s.width()), NAN));
    std::vector<std::unique_ptr<DeviceNumbers<T>>> rights, pres, ys;
    std::vector<std::unique_ptr<DeviceNumbers<float>>> biases;
    TtLinearForward a;
    a.tokens = s.tokens, a.in = s.in, a.width = s.width(), a.x = device_x.data(), a.ldx = ldx,
    a.left = device_left.data();
    a.activation = activation, a.t1 = t1.data(), a.t1_is_given = given_t1 != nullptr,
    a.outputs = static_cast<int>(s.outputs.size());
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < s.outputs.size(); ++i) {
      const Output& o = s.outputs[i];
      rights.push_back(std::make_unique<DeviceNumbers<T>>(right[i])),
          biases.push_back(std::make_unique<DeviceNumbers<float>>(bias[i]));
      for (auto* list : {&pres, &ys})
        list->push_back(std::make_unique<DeviceNumbers<T>>(Floats(static_cast<std::size_t>(s.tokens * o.out), NAN)));
      TtOutput& to = a.output[i];
      to.out = to.ldy = o.out, to.rank = o.rank, to.offset = offset, to.right = rights[i]->data(),
      to.bias = biases[i]->data();
      to.y = ys[i]->data(), to.pre = pres[i]->data();
      offset += o.rank;
    }
    run(a, fused_alone);
    Answer answer{t1.read(), {}, {}};
    for (std::size_t i = 0; i < ys.size(); ++i)
      answer.pre.push_back(pres[i]->read()), answer.y.push_back(ys[i]->read());
    return answer;
  }

  // T1 may be rounded in the other direction than in double, hence two roundings. The sums themselves are f32.
  void check(const Answer& answer) const {
    const double unit = sizeof(T) == 2 ? 0x1p-8 : 0x1p-23, sum_unit = static_cast<double>(s.in + s.width()) * 0x1p-24;
    std::int64_t offset = 0;
    test::Bounds bounds;
    for (std::size_t i = 0; i < s.outputs.size(); offset += s.outputs[i].rank, ++i)
      for (std::int64_t k = 0; k < s.tokens; ++k)
        for (std::int64_t n = 0; n < s.outputs[i].out; ++n) {
          double value = bias[i][static_cast<std::size_t>(n)], magnitude = std::abs(value), sums = magnitude;
          for (std::int64_t r = 0; r < s.outputs[i].rank; ++r) {
            const double b = right[i][static_cast<std::size_t>(r * s.outputs[i].out + n)];
            double t1 = 0, absolute = 0;
            for (std::int64_t m = 0; m < s.in; ++m) {
              const double term = static_cast<double>(x[k * s.in + m]) * left[m * s.width() + offset + r];
              t1 += term, absolute += std::abs(term);
            }
            value += t1 * b, magnitude += std::abs(t1 * b), sums += absolute * std::abs(b);
          }
          const std::size_t at = static_cast<std::size_t>(k * s.outputs[i].out + n);
          const double bound = 2 * unit * magnitude + sum_unit * sums;
          bounds.add(std::abs(answer.pre[i][at] - value), bound);
          const double wanted = activation == Activation::gelu ? gelu(value) : value;
          bounds.add(std::abs(answer.y[i][at] - wanted),
                     1.13 * bound + unit * std::abs(wanted));  // the slope of gelu is below 1.13
        }
    REQUIRE(bounds.hold(sizeof(T) == 2 ? "tt_linear_forward bf16" : "tt_linear_forward f32", place().name,
                        std::to_string(s.tokens) + " x " + std::to_string(s.in)));
  }

 private:
  static void run(const TtLinearForward& a, bool fused_alone) {
    if (!fused_alone) return run_op<T>(place().backend->tt_linear_forward, a);
    REQUIRE(try_fused<T>(context_of<T>(), a) == Status::ok);
  }
};

template <class T>
void check_shape(const Shape& s, Activation activation) {
  const Layer<T> layer(s, activation);
  const auto answer = layer.call(true);
  layer.check(answer);
  for (const emulator::Order order : {emulator::Order::falling, emulator::Order::shuffled}) {
    emulator::set_order(order);
    const auto again = layer.call(true);
    const auto from_t1 = layer.call(true, &answer.t1);
    emulator::set_order(emulator::Order::rising);
    CHECK(again.t1 == answer.t1);
    CHECK(again.y == answer.y);
    CHECK(from_t1.y == answer.y);  // the recomputation in the backward
  }
}

// More chunks of the inner index than are in flight at once, more than one tile of columns, ranks beyond one chunk,
// rows that end inside a tile.
const Shape long_sums{37, 328, {{264, 48}, {24, 16}}}, shared_left{40, 72, {{64, 32}, {64, 16}, {72, 48}}},
    bias_alone{33, 16, {{16, 0}, {8, 16}}};
const Shape wide_rank{20, 24, {{40, 528}, {24, 16}}};  // beyond the blocks of the products on the CPU

}  // namespace

TEST_CASE("tt_linear: the fused forward in f32") {
  check_shape<float>(long_sums, Activation::gelu);
  check_shape<float>(shared_left, Activation::none);
  check_shape<float>(bias_alone, Activation::gelu);
}

TEST_CASE("tt_linear: the fused forward in bf16") {
  check_shape<Bf16>(long_sums, Activation::gelu);
  check_shape<Bf16>(shared_left, Activation::none);
  check_shape<Bf16>(bias_alone, Activation::gelu);
}

TEST_CASE("tt_linear in bf16, every backend: the forward") {
  for (const test::Column& column : test::columns()) {
    if (!column.has_bf16()) continue;
    INFO(column.name);
    const OnColumn on(column);
    for (const Shape& s : {long_sums, shared_left, bias_alone, wide_rank}) {
      const Layer<Bf16> layer(s, Activation::gelu);
      const auto answer = layer.call(false);
      layer.check(answer);
      CHECK(layer.call(false).y == answer.y);
    }
  }
}

TEST_CASE("tt_linear: the forward without the fused kernel in bf16") {
  Shape s = shared_left;
  s.gap = 1;
  const Layer<Bf16> layer(s, Activation::gelu);
  layer.check(layer.call(false));
}

}  // namespace comera::kernels::cuda
