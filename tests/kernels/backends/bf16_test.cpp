// Products, norms, look-ups, factors and losses in bf16 (harness/rounded_once.h).
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cast.h"
#include "kernels/cross_entropy.h"
#include "kernels/embedding.h"
#include "kernels/exact_rows.h"
#include "kernels/linear.h"
#include "kernels/norm.h"
#include "kernels/pooling.h"
#include "kernels/tt_cores.h"
#include "kernels/ttm_embedding.h"
#include "tests/kernels/harness/rounded_once.h"

namespace comera::kernels::cuda {
namespace {

const std::vector<std::int32_t> some_ids = {5, 0, 23, 5, 5, 7, 0, 11, 5, 5, 23}, some_offsets = {0, 3, 3, 8, 11};
Bags bags_in(Call& call, bool many) {
  return {many ? 4 : 11, 11, call.ints(some_ids), many ? call.ints(some_offsets) : nullptr};
}

// A table of 24 rows.
TtmTable table_of(std::int64_t rank, std::int64_t left = 2, std::int64_t right = 4) {
  TtmTable t;
  t.d = 2, t.cut = 1;
  t.row_modes[0] = 4, t.row_modes[1] = 6, t.column_modes[0] = left, t.column_modes[1] = right;
  t.ranks[0] = t.ranks[2] = 1, t.ranks[1] = rank;
  return t;
}

}  // namespace

TEST_CASE("bf16, every backend: look-ups in dense tables") {
  for (const bool many : {false, true})
    for (const std::int64_t columns : {5, 24}) {
      const std::int64_t bags = many ? 4 : 11;
      check_activations([&](Call& call) {
        void* const y = call.activations(numbers(bags * columns, 1));
        call.run(backend().embedding_forward,
                 EmbeddingForward{bags_in(call, many), 24, columns, call.f32(numbers(24 * columns, 2)), y, true});
        return call.read_activations(y, static_cast<std::size_t>(bags * columns));
      });
      check_gradient([&](Call& call) {
        void* const gradient = call.f32(numbers(24 * columns, 1));
        call.run(backend().embedding_backward,
                 EmbeddingBackward{bags_in(call, many), 24, columns, call.activations(numbers(bags * columns, 2)),
                                   gradient});
        return call.read_f32(gradient, static_cast<std::size_t>(24 * columns));
      });
    }
}

TEST_CASE("bf16, every backend: exact rows of a table") {
  const std::vector<std::int32_t> rows = {0, 7, 11, 23};
  for (const std::int64_t columns : {5, 24}) {
    const auto ids_in = [&](Call& call) { return ExactIds{11, call.ints(some_ids), 4, columns, call.ints(rows)}; };
    check_activations([&](Call& call) {
      void* const y = call.activations(numbers(11 * columns, 1));
      call.run(backend().exact_rows_forward, ExactRowsForward{ids_in(call), call.f32(numbers(4 * columns, 2)), y});
      return call.read_activations(y, static_cast<std::size_t>(11 * columns));
    });
    const auto backward = [&](Call& call, void* d_rows, void* d_chain) {
      call.run(backend().exact_rows_backward,
               ExactRowsBackward{ids_in(call), call.activations(numbers(11 * columns, 3)), d_rows, d_chain});
    };
    check_activations([&](Call& call) {
      void* const d_chain = call.activations(Floats(static_cast<std::size_t>(11 * columns)));
      backward(call, call.f32(numbers(4 * columns, 4)), d_chain);
      return call.read_activations(d_chain, static_cast<std::size_t>(11 * columns));
    });
    check_gradient([&](Call& call) {
      void* const d_rows = call.f32(numbers(4 * columns, 4));
      backward(call, d_rows, call.activations(Floats(static_cast<std::size_t>(11 * columns))));
      return call.read_f32(d_rows, static_cast<std::size_t>(4 * columns));
    });
  }
}

TEST_CASE("bf16, every backend: look-ups in TTM tables") {
  for (const bool many : {false, true})
    for (const std::int64_t rank : {3, 8}) {
      const std::int64_t bags = many ? 4 : 11;
      TtmTable t = table_of(rank);
      const auto halves = [&](Call& call) {
        t.left = call.activations(numbers(left_elements(t), 3)),
        t.right = call.activations(numbers(right_elements(t), 4));
      };
      check_activations([&](Call& call) {
        halves(call);
        void* const y = call.activations(numbers(bags * 8, 1));
        call.run(backend().ttm_forward, TtmForward{bags_in(call, many), &t, y, true});
        return call.read_activations(y, static_cast<std::size_t>(bags * 8));
      });
      check_sums(most_terms, [&](Call& call) {
        halves(call);
        void *const left = call.f32(numbers(left_elements(t), 5)), *const right =
                                                                       call.f32(numbers(right_elements(t), 6));
        call.run(backend().ttm_backward,
                 TtmBackward{bags_in(call, many), &t, call.activations(numbers(bags * 8, 1)), left, right});
        Floats both = call.read_f32(left, static_cast<std::size_t>(left_elements(t)));
        for (float x : call.read_f32(right, static_cast<std::size_t>(right_elements(t)))) both.push_back(x);
        return both;
      });
    }
}

// A row has at most 3 parts in bf16, and a sum at most 6 runs of 40 columns.
TEST_CASE("bf16, every backend: gradients of TTM tables wider than a tile") {
  for (const bool many : {false, true})
    check_sums(3 * 6 * 40, [&](Call& call) {
      TtmTable t = table_of(34, 36, 40);
      const std::int64_t bags = many ? 4 : 11, columns = 36 * 40;
      t.left = call.activations(numbers(left_elements(t), 3)),
      t.right = call.activations(numbers(right_elements(t), 4));
      void *const left = call.f32(Floats(static_cast<std::size_t>(left_elements(t)))), *const right = call.f32(Floats(
                                                                                           static_cast<std::size_t>(
                                                                                               right_elements(t))));
      call.run(backend().ttm_backward,
               TtmBackward{bags_in(call, many), &t, call.activations(numbers(bags * columns, 1)), left, right});
      Floats both = call.read_f32(left, static_cast<std::size_t>(left_elements(t)));
      for (float x : call.read_f32(right, static_cast<std::size_t>(right_elements(t)))) both.push_back(x);
      return both;
    });
}

// A GPU and the emulator add 16 products at a time; 2^-8 is the rounding of the result, which may fall to either side.
TEST_CASE("bf16, every backend: look-ups in TTM tables wider than a tile") {
  for (const std::int64_t right : {40, 35})
    on_bf16_backends([&] {
      const std::int64_t columns = 36 * right;
      const auto rows_of = [&](DType dtype) {
        Call call(dtype);
        TtmTable t = table_of(34, 36, right);
        t.left = call.activations(numbers(left_elements(t), 3)),
        t.right = call.activations(numbers(right_elements(t), 4));
        void* const y = call.activations(numbers(11 * columns, 1));
        call.run(backend().ttm_forward, TtmForward{bags_in(call, false), &t, y, true});
        return call.read_activations(y, static_cast<std::size_t>(11 * columns));
      };
      check_near(rows_of(DType::bf16), rows_of(DType::f32), 0x1p-8);
    });
}

TEST_CASE("bf16, every backend: gradients of TTM tables that are not finite") {
  on_bf16_backends([&] {
    Call call(DType::bf16);
    TtmTable t = table_of(8);
    t.left = call.activations(numbers(left_elements(t), 3)), t.right = call.activations(numbers(right_elements(t), 4));
    Floats dy = numbers(11 * 8, 1);
    dy[3] = std::numeric_limits<float>::quiet_NaN(), dy[12] = std::numeric_limits<float>::infinity();
    void *const left = call.f32(Floats(static_cast<std::size_t>(left_elements(t)))), *const right = call.f32(Floats(
                                                                                         static_cast<std::size_t>(
                                                                                             right_elements(t))));
    call.run(backend().ttm_backward, TtmBackward{bags_in(call, false), &t, call.activations(dy), left, right});
    const Floats found = call.read_f32(left, static_cast<std::size_t>(left_elements(t)));
    CHECK(std::any_of(found.begin(), found.end(), [](float x) { return !std::isfinite(x); }));
  });
}

TEST_CASE("bf16, every backend: factors of TTM tables") {
  check_activations([](Call& call) {
    TtmTable t = table_of(5);
    t.cores[0] = call.f32(numbers(8 * 5, 1)), t.cores[1] = call.f32(numbers(5 * 24, 2)),
    t.diagonals[0] = call.f32({0.5f, 2, -1, 0.25f, 1});
    t.left = call.activations(Floats(40)), t.right = call.activations(Floats(120));
    call.run(backend().ttm_merge, TtmMerge{&t});
    Floats both = call.read_activations(t.left, 40);
    for (float x : call.read_activations(t.right, 120)) both.push_back(x);
    return both;
  });
}

TEST_CASE("bf16, every backend: factors of TT matrices, padded") {
  check_activations([](Call& call) {
    TtMatrix t;  // [6 x 8] at rank 5
    t.d = 2, t.e = 2, t.ld_left = 16;
    const std::int64_t modes[] = {2, 3, 4, 2}, ranks[] = {1, 2, 5, 2, 1};
    std::copy_n(modes, 4, t.modes), std::copy_n(ranks, 5, t.ranks);
    for (int k = 0; k < 4; ++k)
      t.cores[k] = call.f32(numbers(ranks[k] * modes[k] * ranks[k + 1], static_cast<unsigned>(k)));
    t.diagonals[1] = call.f32({0.5f, 2, -1, 0.25f, 1});
    t.left = call.activations(Floats(6 * 16, 7.0f)), t.right = call.activations(Floats(16 * 8, 7.0f));
    call.run(backend().tt_merge, TtMerge{&t, 1});
    Floats both = call.read_activations(t.left, 6 * 16);
    for (float x : call.read_activations(t.right, 16 * 8)) both.push_back(x);
    return both;
  });
}

// Without bias and activation there is no intermediate rounding.
TEST_CASE("bf16, every backend: products of dense layers") {
  check_activations([](Call& call) {
    LinearForward a;
    a.tokens = 9, a.in = a.ldx = 20, a.out = a.ldy = 12;
    a.x = call.activations(numbers(180, 1)), a.weight = call.activations(numbers(240, 2)),
    a.y = call.activations(Floats(108));
    call.run(backend().linear_forward, a);
    return call.read_activations(a.y, 108);
  });
  check_activations([](Call& call) {
    LinearBackward a;
    a.tokens = 9, a.in = a.lddx = 20, a.out = a.lddy = 12, a.accumulate_dx = true;
    a.dy = call.activations(numbers(108, 1)), a.weight = call.activations(numbers(240, 2)),
    a.dx = call.activations(numbers(180, 3));
    call.run(backend().linear_backward, a);
    return call.read_activations(a.dx, 180);
  });
  check_gradient([](Call& call) {
    Product a;
    a.tokens = 9, a.in = a.ldx = 20, a.out = a.ldg = a.ld_result = 12;
    a.x = call.activations(numbers(180, 1)), a.g = call.activations(numbers(108, 2)),
    a.result = call.f32(numbers(240, 3));
    call.run(backend().product, a);
    return call.read_f32(a.result, 240);
  });
}

// The column sums use d_pre before it is rounded.
TEST_CASE("bf16, every backend: slopes and sums of columns") {
  for (const std::int64_t columns : {5, 16}) {
    const auto backward = [&](Call& call, bool sums) {
      LinearBackward a;
      a.tokens = 70, a.in = 1, a.out = a.lddy = columns, a.activation = Activation::gelu;
      a.dy = call.activations(numbers(70 * columns, 1)), a.pre = call.activations(numbers(70 * columns, 2)),
      a.d_bias = call.f32(numbers(columns, 3));
      call.run(backend().linear_backward, a);
      return sums ? call.read_f32(a.d_bias, static_cast<std::size_t>(columns))
                  : call.read_activations(a.dy, static_cast<std::size_t>(70 * columns));
    };
    check_activations([&](Call& call) { return backward(call, false); });
    check_gradient([&](Call& call) { return backward(call, true); });
  }
}

TEST_CASE("bf16, every backend: copies of weights") {
  for (const std::size_t count : {1u, 37u, 8192u, 20000u})
    check_activations([&](Call& call) {
      Floats values = numbers(static_cast<std::int64_t>(count), 1);
      for (std::size_t i = 0; i < count; ++i)
        values[i] *= 1 + static_cast<float>(i) * 0x1p-16f;  // more bits than bf16 holds
      const std::vector<CastTensor> tensors = {
          {static_cast<std::int64_t>(count), call.f32(values), call.activations(Floats(count))},
          {static_cast<std::int64_t>(count), call.f32(values), call.activations(Floats(count))}};
      call.run(backend().cast, Cast{tensors.data(), 2});
      const Floats first = call.read_activations(tensors[0].to, count);
      CHECK(call.read_activations(tensors[1].to, count) == first);
      return first;
    });
}

TEST_CASE("bf16, every backend: norms") {
  for (const NormKind kind : {NormKind::layer, NormKind::rms})
    for (const std::int64_t columns : {5, 24, 1030}) {
      const std::int64_t tokens = 9, count = tokens * columns;
      const auto size = static_cast<std::size_t>(count);
      const auto forward = [&](Call& call) {
        NormForward a;
        a.kind = kind, a.tokens = tokens, a.columns = columns;
        a.x = call.activations(numbers(count, 1)), a.gain = call.f32(numbers(columns, 3)),
        a.shift = kind == NormKind::layer ? call.f32(numbers(columns, 4)) : nullptr;
        a.mean = call.f32(Floats(tokens)), a.rstd = call.f32(Floats(tokens)), a.y = call.activations(Floats(size));
        call.run(backend().norm_forward, a);
        return a;
      };
      check_activations([&](Call& call) { return call.read_activations(forward(call).y, size); });
      check_gradient([&](Call& call) { return call.read_f32(forward(call).rstd, tokens); });
      const auto backward = [&](Call& call) {
        NormBackward a;
        a.kind = kind, a.tokens = tokens, a.columns = columns;
        a.dy = call.activations(numbers(count, 5)), a.sum = call.activations(numbers(count, 6));
        a.mean = call.f32(numbers(tokens, 7)), a.rstd = call.f32(Floats(tokens, 0.5f));
        a.gain = call.f32(numbers(columns, 8)), a.d_gain = call.f32(numbers(columns, 9));
        a.d_sum = call.activations(Floats(size));
        call.run(backend().norm_backward, a);
        return a;
      };
      check_activations([&](Call& call) { return call.read_activations(backward(call).d_sum, size); });
      check_gradient(
          [&](Call& call) { return call.read_f32(backward(call).d_gain, static_cast<std::size_t>(columns)); });
    }
}

TEST_CASE("bf16, every backend: cross-entropy") {
  constexpr std::int64_t rows = 7;
  const std::vector<std::int32_t> targets = {4, -1, 0, 2, 3, 1, 4};
  for (const std::int64_t columns : {5, 40, 700}) {
    const auto size = static_cast<std::size_t>(rows * columns);
    struct State {
      void *maximum, *sum, *target_logit;
    };
    const auto chunk = [&](Call& call) {
      const State state{call.f32(Floats(rows)), call.f32(Floats(rows)), call.f32(Floats(rows))};
      CrossEntropyChunk a{.rows = rows, .columns = columns, .start = true};
      a.logits = call.activations(numbers(rows * columns, 1)), a.ld = columns, a.targets = call.ints(targets);
      a.maximum = state.maximum, a.sum = state.sum, a.target_logit = state.target_logit;
      a.best = const_cast<std::int32_t*>(call.ints(std::vector<std::int32_t>(rows)));
      call.run(backend().cross_entropy_chunk, a);
      return state;
    };
    check_gradient([&](Call& call) { return call.read_f32(chunk(call).sum, rows); });
    check_gradient([&](Call& call) { return call.read_f32(chunk(call).maximum, rows); });
    check_activations([&](Call& call) {
      const State state = chunk(call);
      CrossEntropyBackward a{.rows = rows, .columns = columns};
      a.logits = call.activations(numbers(rows * columns, 1)), a.ld = columns, a.targets = call.ints(targets);
      a.maximum = state.maximum, a.sum = state.sum, a.loss_scale = call.doubles({0.5});
      call.run(backend().cross_entropy_backward, a);
      return call.read_activations(a.logits, size);
    });
  }
}

TEST_CASE("bf16, every backend: pooling") {
  constexpr std::int64_t sequences = 3, length = 5;
  for (const bool normalise : {false, true})
    for (const std::int64_t columns : {5, 24}) {
      const std::int64_t count = sequences * length * columns;
      const auto pooled = static_cast<std::size_t>(sequences * columns);
      check_activations([&](Call& call) {
        PoolForward a{.normalise = normalise, .sequences = sequences, .length = length, .columns = columns};
        a.lengths = call.ints({5, 1, 3}), a.x = call.activations(numbers(count, 1));
        a.y = call.activations(Floats(pooled)), a.norm = call.f32(Floats(sequences));
        call.run(backend().pool_forward, a);
        return call.read_activations(a.y, pooled);
      });
      check_activations([&](Call& call) {
        PoolBackward a{.normalise = normalise, .sequences = sequences, .length = length, .columns = columns};
        a.lengths = call.ints({5, 1, 3}), a.y = call.activations(numbers(sequences * columns, 2));
        a.norm = call.f32({1, 2, 0.5f}), a.dy = call.activations(numbers(sequences * columns, 3));
        a.dx = call.activations(Floats(static_cast<std::size_t>(count)));
        call.run(backend().pool_backward, a);
        return call.read_activations(a.dx, static_cast<std::size_t>(count));
      });
    }
}

}  // namespace comera::kernels::cuda
