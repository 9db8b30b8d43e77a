#include "kernels/interaction.h"

#include <catch2/catch.hpp>

#include "tests/kernels/harness/cases.h"

namespace comera::kernels::test {
namespace {

std::string numbered(const char* name, std::int64_t i) { return std::string(name).append(std::to_string(i)); }

Case interaction(std::int64_t rows, std::int64_t vectors, std::int64_t columns) {
  Case c("B=" + std::to_string(rows) + " F=" + std::to_string(vectors) + " N=" + std::to_string(columns));
  const std::int64_t width = interaction_columns(vectors, columns);
  c.empty("y", rows, width).data("d_y", rows, width);
  for (std::int64_t i = 0; i < vectors; ++i)
    c.data(numbered("x", i), rows, columns)
        .empty(numbered("d_x", i), rows, columns)
        .gradient(numbered("x", i), numbered("d_x", i));
  c.forward = [=](Run& r) {
    r.call(&Backend::interaction_forward, [&] {
      InteractionForward a;
      a.rows = rows, a.vectors = vectors, a.columns = columns, a.y = r.out("y");
      for (std::int64_t i = 0; i < vectors; ++i) a.x[i] = r.in(numbered("x", i));
      return a;
    });
  };
  c.backward = [=](Run& r) {
    r.call(&Backend::interaction_backward, [&] {
      InteractionBackward a;
      a.rows = rows, a.vectors = vectors, a.columns = columns, a.dy = r.in("d_y");
      for (std::int64_t i = 0; i < vectors; ++i) a.x[i] = r.in(numbered("x", i)), a.dx[i] = r.out(numbered("d_x", i));
      return a;
    });
  };
  return c.output("y", "d_y");
}

}  // namespace

static std::vector<Case> interaction_cases() {
  return {interaction(1, 1, 3), interaction(3, 2, 5), interaction(5, 4, 16), interaction(70, 9, 7),
          interaction(6, 19, 33)};
}

COMERA_TEST_CASES("interaction", interaction_cases)

TEST_CASE("interaction: the columns of y are x_0 and then the pairs row by row") {
  const float x0[] = {1, 2}, x1[] = {3, 5}, x2[] = {7, 11};
  float y[5] = {};
  InteractionForward a;
  a.rows = 1, a.vectors = 3, a.columns = 2, a.x[0] = x0, a.x[1] = x1, a.x[2] = x2, a.y = y;
  REQUIRE(reference_backend().interaction_forward.run({}, a) == Status::ok);
  CHECK(std::vector<float>(y, y + 5) == std::vector<float>{1, 2, 13, 29, 76});
}

}  // namespace comera::kernels::test
