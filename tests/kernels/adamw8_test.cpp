// The state is stored as bytes and all arithmetic is fixed, so every backend must give the bits of the reference in
// f32.
#include "kernels/adamw8.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <vector>

#include "tests/kernels/harness/placed.h"

namespace comera::kernels::test {
namespace {

using Floats = std::vector<float>;
using Bytes = std::vector<std::uint8_t>;

struct State {
  Floats value, largest1, largest2;
  Bytes codes1, codes2;
  bool operator==(const State&) const = default;
};

State start(std::int64_t count) {
  std::mt19937 random(4);
  std::normal_distribution<float> normal;
  State state;
  for (std::int64_t i = 0; i < count; ++i) state.value.push_back(normal(random));
  const auto blocks = static_cast<std::size_t>(adamw8_blocks(count));
  state.largest1.assign(blocks, 0), state.largest2.assign(blocks, 0);
  state.codes1.assign(state.value.size(), 0), state.codes2 = state.codes1;
  return state;
}

// Gradients of very different sizes, as of different layers.
Floats gradients(std::int64_t count, int step) {
  std::mt19937 random(100 + static_cast<unsigned>(step));
  std::normal_distribution<float> normal;
  Floats g(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < g.size(); ++i) g[i] = normal(random) * std::pow(10.0f, -static_cast<float>(i % 7));
  return g;
}

AdamwScalars scalars_of(int step) {
  AdamwScalars s{.learning_rate = 1e-2, .weight_decay = 0.1};
  s.correction1 = 1 - std::pow(s.beta1, step + 1), s.correction2 = 1 - std::pow(s.beta2, step + 1);
  return s;
}

// States after each of some steps.
std::vector<State> trained(const Column& column, std::int64_t count, int steps, double finite = 1) {
  State state = start(count);
  std::vector<State> states;
  for (int step = 0; step < steps; ++step) {
    const Placed<float> value(column, state.value), largest1(column, state.largest1), largest2(column, state.largest2),
        gradient(column, gradients(count, step));
    const Placed<std::uint8_t> codes1(column, state.codes1), codes2(column, state.codes2);
    const Placed<AdamwScalars> scalars(column, {scalars_of(step)});
    const Placed<StepScalars> common(column, {{.gradient_scale = 0.5, .finite = finite}});
    const Adamw8Tensor tensor{.count = count,
                              .value = value.data(),
                              .gradient = gradient.data(),
                              .codes1 = codes1.data(),
                              .codes2 = codes2.data(),
                              .largest1 = largest1.data(),
                              .largest2 = largest2.data(),
                              .scalars = scalars.data()};
    REQUIRE(column.backend->adamw8.run(context_of(column), {&tensor, 1, common.data()}) == Status::ok);
    state = {value.read(), largest1.read(), largest2.read(), codes1.read(), codes2.read()};
    states.push_back(state);
  }
  return states;
}

const Column plain{"reference f32", &reference_backend(), nullptr, {}};

}  // namespace

// Facts of bitsandbytes' create_dynamic_map.
TEST_CASE("adamw8: the code books are the published ones") {
  constexpr CodeBook first = make_code_book(true), second = make_code_book(false);
  for (const CodeBook* book : {&first, &second})
    for (int i = 0; i + 1 < 256; ++i) REQUIRE(book->value[i] < book->value[i + 1]);
  CHECK(first.value[127] == 0);
  CHECK(first.value[0] == -0.99296875f);
  CHECK(first.value[128] == Approx(5.5e-7));
  CHECK(first.value[126] == -first.value[128]);
  CHECK(first.value[255] == 1);
  CHECK(second.value[0] == 0);
  CHECK(second.value[1] == Approx(3.25e-7));
  CHECK(second.value[255] == 1);
}

TEST_CASE("adamw8: a code is the nearest value, and a negative moment keeps its sign") {
  for (const bool is_signed : {true, false}) {
    const CodeBook book = make_code_book(is_signed);
    std::mt19937 random(2);
    std::uniform_real_distribution<float> exponent(-9, 0);
    for (int draw = 0; draw < 20000; ++draw) {
      const float x = std::pow(10.0f, exponent(random)) * (is_signed && draw % 2 ? -1.0f : 1.0f);
      const float found = book.value[code_of(book.middle, x, 1.0f, is_signed)];
      float best = 2;
      for (const float value : book.value) best = std::min(best, std::abs(value - x));
      if (x < 0 && x > book.middle[126])
        CHECK(found == book.value[126]);
      else
        CHECK(std::abs(found - x) <= best + 0x1p-24f * std::abs(x));
    }
    CHECK(code_of(book.middle, 0.0f, 0.0f, is_signed) == (is_signed ? 127 : 0));
  }
}

TEST_CASE("adamw8: every backend gives the bits of the reference") {
  for (const Column& column : columns())
    for (const std::int64_t count : {1, 255, 256, 257, 5000, 40000}) {
      CAPTURE(column.name, count);
      const std::vector<State> wanted = trained(plain, count, 3);
      CHECK(trained(column, count, 3) == wanted);
      for (const auto& variation : column.variations) {
        variation();
        CHECK(trained(column, count, 3) == wanted);
      }
    }
}

TEST_CASE("adamw8: a step that is not finite changes nothing") {
  for (const Column& column : columns()) CHECK(trained(column, 300, 1, 0).front() == start(300));
}

// From zero moments the first step is that of AdamW in 32 bit, and its state is stored within half a gap of the code
// book relative to the block's largest value.
TEST_CASE("adamw8: the first step is exact, and the stored moments are near those of 32 bit") {
  constexpr std::int64_t count = 5000;
  const State begin = start(count), state = trained(plain, count, 1).front();
  const Floats g = gradients(count, 0);
  const CodeBook first = make_code_book(true), second = make_code_book(false);
  const AdamwScalars s = scalars_of(0);
  for (std::size_t i = 0; i < g.size(); ++i) {
    const double gradient = 0.5 * g[i], m = 0.1 * gradient, v = 0.001 * gradient * gradient;
    const double direction = (m / s.correction1) / (std::sqrt(v / s.correction2) + s.epsilon),
                 wanted = begin.value[i] - 1e-2 * (0.1 * begin.value[i] + direction);
    REQUIRE(state.value[i] == Approx(wanted).epsilon(1e-5).margin(1e-6));
    const auto gap = [](const CodeBook& book, int code) {
      return std::max(code > 0 ? book.value[code] - book.value[code - 1] : 0.0f,
                      code < 255 ? book.value[code + 1] - book.value[code] : 0.0f);
    };
    const std::size_t block = i / adamw8_block;
    const double largest1 = state.largest1[block], largest2 = state.largest2[block];
    REQUIRE(std::abs(first.value[state.codes1[i]] * largest1 - m) <=
            (0.5 + 1e-4) * gap(first, state.codes1[i]) * largest1);
    REQUIRE(std::abs(second.value[state.codes2[i]] * largest2 - v) <=
            (0.5 + 1e-4) * gap(second, state.codes2[i]) * largest2);
  }
}

}  // namespace comera::kernels::test
