// Elementwise ops, rotations, losses against a teacher, codes and projections in bf16 (harness/rounded_once.h).
#include "kernels/distillation.h"
#include "kernels/elementwise.h"
#include "kernels/grids.h"
#include "kernels/group_codes.h"
#include "kernels/interaction.h"
#include "kernels/logistic.h"
#include "kernels/rotary.h"
#include "kernels/sketch.h"
#include "tests/kernels/harness/rounded_once.h"

namespace comera::kernels::cuda {
namespace {

constexpr std::int64_t rows = 9;

std::size_t size_of_rows(std::int64_t columns) { return static_cast<std::size_t>(rows * columns); }
Floats some(std::int64_t columns, unsigned seed) { return numbers(rows * columns, seed); }

}  // namespace

TEST_CASE("bf16, every backend: activations and gated products") {
  for (const Activation activation : {Activation::gelu, Activation::silu, Activation::relu, Activation::gelu_tanh})
    for (const std::int64_t columns : {5, 24}) {
      const std::int64_t count = rows * columns;
      check_activations([&](Call& call) {
        void* const y = call.activations(some(columns, 1));
        call.run(backend().activation_forward, ActivationForward{activation, count, y, y});
        return call.read_activations(y, size_of_rows(columns));
      });
      check_activations([&](Call& call) {
        void* const dx = call.activations(some(columns, 1));
        call.run(backend().activation_backward,
                 ActivationBackward{activation, count, call.activations(some(columns, 2)), dx, dx});
        return call.read_activations(dx, size_of_rows(columns));
      });
      check_activations([&](Call& call) {
        void* const y = call.activations(some(columns, 3));
        call.run(backend().gated_forward, GatedForward{activation, count, call.activations(some(columns, 1)),
                                                       call.activations(some(columns, 2)), y});
        return call.read_activations(y, size_of_rows(columns));
      });
      check_activations([&](Call& call) {
        void *const gate = call.activations(some(columns, 1)), *const up = call.activations(some(columns, 2));
        call.run(backend().gated_backward,
                 GatedBackward{activation, count, gate, up, call.activations(some(columns, 3)), gate, up});
        Floats both = call.read_activations(gate, size_of_rows(columns));
        for (const float x : call.read_activations(up, size_of_rows(columns))) both.push_back(x);
        return both;
      });
    }
}

TEST_CASE("bf16, every backend: sums, gathered and scattered rows") {
  const std::vector<std::int32_t> index = {3, -1, 0, 8, 5, -1, 1, 2, 4};
  for (const std::int64_t columns : {5, 24}) {
    check_activations([&](Call& call) {
      void* const y = call.activations(some(columns, 1));
      call.run(backend().add_scaled, AddScaled{rows * columns, 0.75, call.activations(some(columns, 2)), y});
      return call.read_activations(y, size_of_rows(columns));
    });
    check_activations([&](Call& call) {
      void* const y = call.activations(some(columns, 1));
      call.run(backend().gather_rows,
               GatherRows{rows, columns, call.ints(index), call.activations(some(columns, 2)), columns, y});
      return call.read_activations(y, size_of_rows(columns));
    });
    check_activations([&](Call& call) {
      void* const dx = call.activations(some(columns, 1));
      call.run(backend().scatter_rows,
               ScatterRows{rows, columns, call.ints(index), call.activations(some(columns, 2)), dx, columns});
      return call.read_activations(dx, size_of_rows(columns));
    });
  }
}

TEST_CASE("bf16, every backend: rotated heads") {
  constexpr std::int64_t positions = 12, heads = 2;
  for (const std::int64_t head : {6, 32})
    check_activations([&](Call& call) {
      const auto half = static_cast<std::size_t>(positions * head / 2);
      void *const cosines = call.f32(Floats(half)), *const sines = call.f32(Floats(half));
      RotaryTable table{.positions = positions, .head_size = head, .cosines = cosines, .sines = sines};
      call.run(backend().rotary_table, table);
      void* const y = call.activations(some(heads * head, 1));
      Rotary a{.tokens = rows, .heads = heads, .head_size = head};
      a.positions = call.ints({0, 1, 2, 3, 11, 5, 6, 7, 8}), a.cosines = cosines, a.sines = sines, a.x = a.y = y;
      call.run(backend().rotary, a);
      return call.read_activations(y, size_of_rows(heads * head));
    });
}

TEST_CASE("bf16, every backend: the logistic loss") {
  const auto backward = [](Call& call) {
    void* const d = call.activations(some(1, 1));
    LogisticBackward a{.rows = rows, .logits = d, .targets = call.ints({0, 1, -1, 1, 0, 0, 1, -1, 1})};
    a.loss_scale = call.doubles({0.5}), a.d_logits = d;
    call.run(backend().logistic_backward, a);
    return call.read_activations(d, size_of_rows(1));
  };
  check_activations(backward);
}

TEST_CASE("bf16, every backend: dot products of vectors") {
  constexpr std::int64_t vectors = 3;
  for (const std::int64_t columns : {5, 24}) {
    const std::int64_t width = interaction_columns(vectors, columns);
    check_activations([&](Call& call) {
      InteractionForward a{.rows = rows, .vectors = vectors, .columns = columns};
      for (unsigned i = 0; i < vectors; ++i) a.x[i] = call.activations(some(columns, i + 1));
      a.y = call.activations(some(width, 4));
      call.run(backend().interaction_forward, a);
      return call.read_activations(a.y, size_of_rows(width));
    });
    check_activations([&](Call& call) {
      InteractionBackward a{.rows = rows, .vectors = vectors, .columns = columns};
      for (unsigned i = 0; i < vectors; ++i)
        a.x[i] = call.activations(some(columns, i + 1)), a.dx[i] = call.activations(some(columns, i + 5));
      a.dy = call.activations(some(width, 4));
      call.run(backend().interaction_backward, a);
      Floats all;
      for (unsigned i = 0; i < vectors; ++i)
        for (const float x : call.read_activations(a.dx[i], size_of_rows(columns))) all.push_back(x);
      return all;
    });
  }
}

TEST_CASE("bf16, every backend: losses against a teacher") {
  for (const Distance distance : {Distance::squared, Distance::cosine})
    for (const std::int64_t columns : {5, 24}) {
      check_gradient([&](Call& call) {
        VectorDistance a{.distance = distance, .sequences = 3, .length = 3, .columns = columns};
        a.x = call.activations(some(columns, 1)), a.target = call.activations(some(columns, 2));
        a.distances = call.f32(Floats(rows)), a.loss = const_cast<double*>(call.doubles({0}));
        a.scale = call.doubles({0.5});
        call.run(backend().vector_distance, a);
        return call.read_f32(a.distances, rows);
      });
      check_activations([&](Call& call) {
        VectorDistanceBackward a{.distance = distance, .sequences = 3, .length = 3, .columns = columns};
        a.x = call.activations(some(columns, 1)), a.target = call.activations(some(columns, 2));
        a.scale = call.doubles({0.5}), a.dx = call.activations(some(columns, 3)), a.accumulate = true;
        call.run(backend().vector_distance_backward, a);
        return call.read_activations(a.dx, size_of_rows(columns));
      });
    }
  for (const std::int64_t columns : {5, 24})
    check_activations([&](Call& call) {
      void *const z = call.activations(some(columns, 1)), *const teacher = call.activations(some(columns, 2)),
                  *const state = call.f32(Floats(size_of_rows(divergence_state)));
      call.run(backend().divergence_chunk,
               DivergenceChunk{rows, columns, true, 2, z, columns, teacher, columns, state});
      DivergenceBackward a{.rows = rows, .columns = columns, .temperature = 2, .logits = z, .ld = columns};
      a.teacher = teacher, a.ld_teacher = columns, a.state = state, a.scale = call.doubles({0.5});
      a.d_logits = call.activations(some(columns, 3));
      call.run(backend().divergence_backward, a);
      return call.read_activations(a.d_logits, size_of_rows(columns));
    });
}

TEST_CASE("bf16, every backend: codes of groups") {
  for (const int bits : {8, 4})
    for (const std::int64_t columns : {5, 100})
      check_activations([&](Call& call) {
        GroupCodes shape;
        shape.rows = rows, shape.columns = columns, shape.bits = bits;
        GroupQuantise to{.shape = shape, .x = call.activations(some(columns, 1))};
        to.codes = static_cast<std::uint8_t*>(call.f32(Floats(static_cast<std::size_t>(rows * shape.row_bytes()))));
        to.ranges = static_cast<std::uint16_t*>(call.f32(Floats(static_cast<std::size_t>(rows * shape.groups()))));
        call.run(backend().group_quantise, to);
        void* const y = call.activations(some(columns, 2));
        call.run(backend().group_restore, GroupRestore{.shape = shape, .codes = to.codes, .ranges = to.ranges, .x = y});
        return call.read_activations(y, size_of_rows(columns));
      });
}

TEST_CASE("bf16, every backend: weights on grids") {
  constexpr std::int64_t lines = 12, width = 40;
  for (const Grid grid : {Grid::q8_0, Grid::q4_1, Grid::q3_0}) {
    const auto weight_in = [&](Call& call) {
      GridLines weight{grid, lines, width, nullptr};
      std::vector<std::uint8_t> bytes(static_cast<std::size_t>(lines * weight.line_bytes()));
      const auto block = static_cast<std::size_t>(bytes_of_group(grid, group_of(grid) / grid_block));
      for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 37 % 251);
      for (std::size_t i = 0; i < bytes.size(); i += block)  // scales of about 2^-8, and for q4_1 the least number
        for (std::size_t half = 0; half < (grid == Grid::q4_1 ? 4 : 2); half += 2) bytes[i + half + 1] = 0x1C;
      weight.bytes = call.bytes(bytes);
      return weight;
    };
    for (const bool accumulate : {false, true}) {
      check_activations([&](Call& call) {
        GridLinear a{.tokens = rows, .weight = weight_in(call), .x = call.activations(some(width, 1)), .ldx = width};
        a.bias = call.f32(numbers(lines, 2)), a.activation = Activation::gelu, a.accumulate = accumulate;
        a.y = call.activations(some(lines, 3)), a.ldy = lines;
        call.run(backend().grid_linear, a);
        return call.read_activations(a.y, size_of_rows(lines));
      });
      check_activations([&](Call& call) {
        void* const y = call.activations(some(width, 3));
        const Bags bags{rows, rows, call.ints({0, 5, 11, 5, 3, 2, 1, 7, 0}), nullptr};
        call.run(backend().grid_embedding, GridEmbedding{bags, weight_in(call), y, accumulate});
        return call.read_activations(y, size_of_rows(width));
      });
    }
  }
}

// Within 2^-8 of the rounding and 2^-12 of the approximation; what is close to the smallest normal number may be 0.
TEST_CASE("bf16, every backend: GELU over all magnitudes") {
  Floats x;
  for (float a = 0x1p-20f; a < 16; a *= 1.01f) x.push_back(a), x.push_back(-a);
  x = rounded(x);
  const auto count = static_cast<std::int64_t>(x.size());
  on_bf16_backends([&] {
    Call call(DType::bf16);
    void* const y = call.activations(x);
    call.run(backend().activation_forward, ActivationForward{Activation::gelu, count, y, y});
    const Floats found = call.read_activations(y, x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = 0.5 * x[i] * std::erfc(-x[i] * std::sqrt(0.5));
      INFO(x[i] << ": " << found[i] << ", wanted " << exact);
      CHECK(std::abs(found[i] - exact) <= (0x1p-8 + 0x1p-12) * std::abs(exact) + 0x1p-120);
    }
  });
}

TEST_CASE("bf16, every backend: projections drawn from a key") {
  for (const SketchKind kind : {SketchKind::normal, SketchKind::sparse, SketchKind::orthonormal, SketchKind::count})
    for (const bool transposed : {false, true})
      check_activations([&](Call& call) {
        StepScalars scalars;
        scalars.seed = 7, scalars.step = 3;
        const Sketch sketch{.kind = kind, .inputs = 40, .rank = 12, .site = 4};
        void* const p = call.activations(numbers(40 * 12, 1));
        call.run(backend().draw_sketch, DrawSketch{sketch, 1, call.scalars(scalars), transposed, p});
        return call.read_activations(p, 40 * 12);
      });
}

}  // namespace comera::kernels::cuda
