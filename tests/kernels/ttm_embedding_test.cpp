// Cases that the table of cases (embedding_test.cpp) does not cover: runs of equal ids longer than a tile, bags, and
// calls that fail.
#include "kernels/ttm_embedding.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "kernels/embedding.h"
#include "kernels/host/thread_pool.h"
#include "tests/kernels/simd/cpu_tables.h"

namespace comera::kernels::test {
namespace {

using Floats = std::vector<float>;

// 20 * 10 rows of 4 * 6 columns at rank 5.
struct Table {
  static constexpr std::int64_t columns = 24, rows = 200;
  Floats left = normal(20 * 4 * 5, 1), right = normal(10 * 5 * 6, 2);
  TtmTable t;
  Table() {
    t.d = 2, t.cut = 1;
    t.row_modes[0] = 20, t.row_modes[1] = 10, t.column_modes[0] = 4, t.column_modes[1] = 6;
    t.ranks[0] = t.ranks[2] = 1, t.ranks[1] = 5;
    t.left = left.data(), t.right = right.data();
  }
  static Floats normal(std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> distribution;
    Floats v(count);
    for (float& x : v) x = distribution(random);
    return v;
  }
};

// 300 ids, 200 of them 7, so that their run spans several tiles of the forward.
std::vector<std::int32_t> skewed_ids() {
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < 300; ++i) ids.push_back(i % 3 == 0 ? (i * 37) % 200 : 7);
  return ids;
}

// The same gradients in double, and the bounds terms * u * sum of absolute products.
struct Gradient {
  std::vector<double> left, right, left_bound, right_bound;
  Gradient(const Table& t, const std::vector<std::int32_t>& ids, const Floats& dy)
      : left(t.left.size()), right(t.right.size()), left_bound(t.left.size()), right_bound(t.right.size()) {
    constexpr double unit = 300 * 6 * 0x1p-24;
    for (std::size_t k = 0; k < ids.size(); ++k)
      for (std::size_t i = 0; i < 4; ++i)
        for (std::size_t j = 0; j < 6; ++j)
          for (std::size_t a = 0; a < 5; ++a) {
            const std::size_t id = static_cast<std::size_t>(ids[k]), l = (id / 10 * 4 + i) * 5 + a,
                              r = (id % 10 * 5 + a) * 6 + j;
            const double g = dy[k * Table::columns + i * 6 + j], to_left = g * t.right[r], to_right = g * t.left[l];
            left[l] += to_left, left_bound[l] += unit * std::abs(to_left);
            right[r] += to_right, right_bound[r] += unit * std::abs(to_right);
          }
  }
};

}  // namespace

TEST_CASE("equal ids have equal rows, for any cut of their run") {
  const std::vector<std::int32_t> ids = skewed_ids();
  for (const Backend* cpu : cpu_tables()) {
    Table table;
    Floats y(300 * Table::columns), one(Table::columns);
    REQUIRE(call_cpu(cpu->ttm_forward, TtmForward{{300, 300, ids.data(), nullptr}, &table.t, y.data(), false}) ==
            Status::ok);
    for (std::size_t i = 0; i < 300; ++i) {
      REQUIRE(call_cpu(cpu->ttm_forward, TtmForward{{1, 1, &ids[i], nullptr}, &table.t, one.data(), false}) ==
              Status::ok);
      CHECK(std::equal(one.begin(), one.end(), y.begin() + static_cast<std::ptrdiff_t>(i * Table::columns)));
    }
  }
}

TEST_CASE("a bag is the sum of its rows, an empty bag is zero") {
  const std::vector<std::int32_t> ids = skewed_ids(), offsets = {0, 0, 120, 121, 300};
  for (const Backend* cpu : cpu_tables()) {
    Table table;
    Floats rows(300 * Table::columns), y(4 * Table::columns, 5.0f);
    REQUIRE(call_cpu(cpu->ttm_forward, TtmForward{{300, 300, ids.data(), nullptr}, &table.t, rows.data(), false}) ==
            Status::ok);
    REQUIRE(call_cpu(cpu->ttm_forward, TtmForward{{4, 300, ids.data(), offsets.data()}, &table.t, y.data(), false}) ==
            Status::ok);
    for (std::size_t b = 0; b < 4; ++b)
      for (std::size_t j = 0; j < Table::columns; ++j) {
        float sum = 0;  // the op adds in this order
        for (std::int32_t i = offsets[b]; i < offsets[b + 1]; ++i)
          sum += rows[static_cast<std::size_t>(i) * Table::columns + j];
        CHECK(y[b * Table::columns + j] == sum);
      }
  }
}

TEST_CASE("gradients of a skewed batch are the same bytes for any number of threads, and within their bound") {
  const std::vector<std::int32_t> ids = skewed_ids();
  const Floats dy = Table::normal(300 * Table::columns, 3);
  ThreadPool pool(3);
  for (const Backend* cpu : cpu_tables()) {
    Table table;
    Floats d_left(table.left.size()), d_right(table.right.size()), left3 = d_left, right3 = d_right;
    const Bags bags{300, 300, ids.data(), nullptr};
    REQUIRE(call_cpu(cpu->ttm_backward, TtmBackward{bags, &table.t, dy.data(), d_left.data(), d_right.data()}) ==
            Status::ok);
    REQUIRE(call_cpu(cpu->ttm_backward, TtmBackward{bags, &table.t, dy.data(), left3.data(), right3.data()}, &pool) ==
            Status::ok);
    CHECK(left3 == d_left);
    CHECK(right3 == d_right);
    const Gradient wanted(table, ids, dy);
    for (std::size_t i = 0; i < d_left.size(); ++i)
      CHECK(d_left[i] == Approx(wanted.left[i]).epsilon(0).margin(wanted.left_bound[i]));
    for (std::size_t i = 0; i < d_right.size(); ++i)
      CHECK(d_right[i] == Approx(wanted.right[i]).epsilon(0).margin(wanted.right_bound[i]));
  }
}

TEST_CASE("ids beyond the table and a missing workspace are rejected") {
  for (const Backend* cpu : cpu_tables()) {
    Table table;
    Floats y(Table::columns);
    for (std::int32_t id : {-1, 200}) {
      CHECK(call_cpu(cpu->ttm_forward, TtmForward{{1, 1, &id, nullptr}, &table.t, y.data(), false}) ==
            Status::unsupported_shape);
      CHECK(call_cpu(cpu->ttm_backward,
                     TtmBackward{{1, 1, &id, nullptr}, &table.t, y.data(), table.left.data(), table.right.data()}) ==
            Status::unsupported_shape);
      CHECK(
          call_cpu(cpu->embedding_forward, EmbeddingForward{{1, 1, &id, nullptr}, 200, 4, y.data(), y.data(), false}) ==
          Status::unsupported_shape);
    }
    const std::int32_t id = 3;
    CHECK(cpu->ttm_forward.run({}, TtmForward{{1, 1, &id, nullptr}, &table.t, y.data(), false}) ==
          Status::workspace_too_small);
  }
}

}  // namespace comera::kernels::test
