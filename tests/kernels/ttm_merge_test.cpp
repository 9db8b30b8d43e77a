// The TTM table of literal rows (the same numbers as in the test of the reference), merged by every CPU table.
#include "kernels/ttm_merge.h"

#include <cmath>

#include "kernels/ttm_embedding.h"
#include "tests/kernels/simd/cpu_tables.h"

namespace comera::kernels::test {
namespace {

using Floats = std::vector<float>;

Floats filled(std::int64_t count, int s) {
  Floats v(static_cast<std::size_t>(count));
  for (std::int64_t k = 0; k < count; ++k)
    v[static_cast<std::size_t>(k)] = static_cast<float>((7 * k + 3 * s) % 11 - 5) / 4;
  return v;
}

// m = [2,3,2,2], n = [2,1,3,2], ranks [1,2,3,2,1].
struct Table {
  std::vector<Floats> cores, d_cores;
  std::vector<Floats> diagonals, d_diagonals;
  Floats left, right, d_left, d_right;
  TtmTable t;

  Table(int cut, std::vector<Floats> d) : diagonals(std::move(d)) {
    const std::int64_t m[] = {2, 3, 2, 2}, n[] = {2, 1, 3, 2}, ranks[] = {1, 2, 3, 2, 1};
    t.d = 4, t.cut = cut, t.threshold = .01;
    for (int k = 0; k < 4; ++k) {
      t.row_modes[k] = m[k], t.column_modes[k] = n[k];
      cores.push_back(filled(ranks[k] * m[k] * n[k] * ranks[k + 1], 11 + k));
      d_cores.push_back(Floats(cores.back().size()));
    }
    for (int k = 0; k < 5; ++k) t.ranks[k] = ranks[k];
    for (const Floats& v : diagonals) d_diagonals.push_back(Floats(v.size()));
    for (std::size_t k = 0; k < 4; ++k) t.cores[k] = cores[k].data(), t.d_cores[k] = d_cores[k].data();
    for (std::size_t k = 0; k < diagonals.size(); ++k)
      t.diagonals[k] = diagonals[k].data(), t.d_diagonals[k] = d_diagonals[k].data();
    left = d_left = Floats(static_cast<std::size_t>(left_elements(t))),
    right = d_right = Floats(static_cast<std::size_t>(right_elements(t)));
    t.left = left.data(), t.right = right.data(), t.d_left = d_left.data(), t.d_right = d_right.data();
  }
};

double sum(const Floats& v) {
  double s = 0;
  for (float x : v) s += x;
  return s;
}

// Each number is a sum of some hundred products of size 40 at most.
constexpr double tolerance = 100 * 40 * 0x1p-24;

}  // namespace

TEST_CASE("TTM factors of every CPU table multiply to the literal row") {
  const Floats row5 = {-2.0078125f, 1.79296875f, -1.515625f,  1.03125f,   3.2734375f, -2.6953125f,
                       -0.5078125f, 0.5859375f,  -3.1328125f, 2.4140625f, 3.1796875f, -2.71875f};
  for (const Backend* cpu : cpu_tables())
    for (int cut : {1, 2, 3}) {
      Table v(cut, {});
      REQUIRE(call_cpu(cpu->ttm_merge, TtmMerge{&v.t}) == Status::ok);
      const std::int64_t rank = v.t.ranks[cut], across = right_columns(v.t), p = 5 / right_rows(v.t),
                         q = 5 % right_rows(v.t);
      for (std::int64_t j = 0; j < 12; ++j) {
        double value = 0;
        for (std::int64_t a = 0; a < rank; ++a)
          value +=
              static_cast<double>(v.left[static_cast<std::size_t>((p * left_columns(v.t) + j / across) * rank + a)]) *
              v.right[static_cast<std::size_t>((q * rank + a) * across + j % across)];
        CHECK(value == Approx(row5[static_cast<std::size_t>(j)]).epsilon(0).margin(tolerance));
      }
    }
}

TEST_CASE("TTM gradients of every CPU table add up to the literal sums") {
  const std::vector<std::int32_t> ids = {5, 0, 23, 5};
  const Floats dy = filled(48, 15);
  for (const Backend* cpu : cpu_tables())
    for (int cut : {1, 2, 3}) {
      Table v(cut, {{1, .5f}, {.75f, .005f, .5f}, {.75f, -.5f}});
      const Bags bags{4, 4, ids.data(), nullptr};
      Floats y(48);
      REQUIRE(call_cpu(cpu->ttm_merge, TtmMerge{&v.t}) == Status::ok);
      REQUIRE(call_cpu(cpu->ttm_forward, TtmForward{bags, &v.t, y.data(), false}) == Status::ok);
      REQUIRE(call_cpu(cpu->ttm_backward, TtmBackward{bags, &v.t, dy.data(), v.d_left.data(), v.d_right.data()}) ==
              Status::ok);
      REQUIRE(call_cpu(cpu->ttm_merge_backward, TtmMergeBackward{&v.t}) == Status::ok);
      double product = 0;
      for (std::size_t i = 0; i < 48; ++i) product += static_cast<double>(y[i]) * dy[i];
      CHECK(product == Approx(6.038360596).epsilon(0).margin(tolerance));
      const double sums[] = {-.164794922, -3.939331055, 1.827026367, -.28125};
      for (std::size_t k = 0; k < 4; ++k) CHECK(sum(v.d_cores[k]) == Approx(sums[k]).epsilon(0).margin(tolerance));
      const std::vector<std::vector<double>> slopes = {
          {3.684631348, 4.707458496}, {7.722290039, 0, .493286133}, {8.051147461, 0}};
      for (std::size_t k = 0; k < 3; ++k)
        for (std::size_t j = 0; j < slopes[k].size(); ++j)
          CHECK(v.d_diagonals[k][j] == Approx(slopes[k][j]).epsilon(0).margin(tolerance));
    }
}

TEST_CASE("A table of one core is its own left factor, its right factor is 1") {
  const Floats core = filled(15, 3);
  for (const Backend* cpu : cpu_tables()) {
    Floats left(15), right(1, 9);
    TtmTable t;
    t.d = t.cut = 1;
    t.row_modes[0] = 5, t.column_modes[0] = 3, t.ranks[0] = t.ranks[1] = 1, t.cores[0] = core.data();
    t.left = left.data(), t.right = right.data();
    REQUIRE(call_cpu(cpu->ttm_merge, TtmMerge{&t}) == Status::ok);
    CHECK(left == core);
    CHECK(right[0] == 1);
  }
}

}  // namespace comera::kernels::test
