#include "kernels/late_sums.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <vector>

#include "kernels/norm.h"
#include "kernels/tt_linear.h"
#include "tests/kernels/harness/cases.h"
#include "tests/kernels/harness/placed.h"

namespace comera::kernels::test {
namespace {

using Floats = std::vector<float>;

// Two sums whose parts lie side by side, and `more` with parts of their own.
Case sums(std::int64_t count, int groups, int more = 0) {
  Case c(std::to_string(groups) + " groups of " + std::to_string(count) + ", " + std::to_string(more) + " more");
  c.data("parts", groups, 2 * count).data("first", 1, count).data("second", 1, count);
  const auto numbered = [](const char* name, int i) { return name + std::to_string(i); };
  for (int i = 0; i < more; ++i) c.data(numbered("parts", i), i, count + i).data(numbered("to", i), 1, count + i);
  c.forward = [=](Run& r) {
    r.call(&Backend::late_sums, [&] {
      LateSums a;
      a.sum[a.count++] = {r.in("parts"), r.out("first"), count, 2 * count, groups};
      a.sum[a.count++] = {r.in_at("parts", count), r.out("second"), count, 2 * count, groups};
      for (int i = 0; i < more; ++i)
        a.sum[a.count++] = {r.in(numbered("parts", i)), r.out(numbered("to", i)), count + i, count + i, i};
      return a;
    });
  };
  return c;
}

// Columns that are no multiple of four; groups for one lane up to a warp, and more than a warp loads at once; sums of
// which a block adds several; a sum without groups.
std::vector<Case> late_sums_cases() {
  return {sums(1, 1), sums(33, 8), sums(768, 9), sums(30, 44), sums(256, 384), sums(5, 257), sums(132, 11, 6)};
}

// A call with sums in device memory, twice in a row as layers of one shape have it.
struct Calls {
  explicit Calls(const Column& column) : column(column) {}

  const Column& column;
  const Placed<float> x{column, values(tokens*columns, 1)}, dy{column, values(tokens*columns, 2)},
      gain{column, values(columns, 3)}, left{column, values(columns*rank, 4)}, right{column, values(rank*out, 5)},
      t1{column, values(tokens*rank, 6)}, dy_of_out{column, values(tokens*out, 7)}, u1{column, Floats(tokens*rank)},
      dx{column, Floats(tokens*columns)}, statistic{column, Floats(tokens, 0.5f)};
  const Placed<float> d_gain{column, Floats(columns, 1)}, d_shift{column, Floats(columns, 2)},
      d_left{column, Floats(columns*rank, 3)}, d_right{column, Floats(rank*out, 4)}, d_bias{column, Floats(out, 5)};

  static constexpr std::int64_t tokens = 300, columns = 72, rank = 16, out = 40;

  NormBackward norm() const {
    NormBackward a;
    a.tokens = tokens, a.columns = columns, a.dy = dy.data(), a.sum = x.data(), a.mean = a.rstd = statistic.data();
    a.gain = gain.data(), a.d_sum = dx.data(), a.d_gain = d_gain.data(), a.d_shift = d_shift.data();
    return a;
  }
  TtLinearBackward linear() const {
    TtLinearBackward a;
    a.tokens = tokens, a.in = a.ldx = a.lddx = columns, a.width = rank, a.x = x.data(), a.left = left.data();
    a.d_left = d_left.data(), a.t1 = t1.data(), a.u1 = u1.data(), a.dx = dx.data(), a.outputs = 1;
    a.output[0].out = a.output[0].ldy = out, a.output[0].rank = rank, a.output[0].right = right.data();
    a.output[0].dy = dy_of_out.data(), a.output[0].d_right = d_right.data(), a.output[0].d_bias = d_bias.data();
    return a;
  }
  std::vector<Floats> gradients() const {
    return {d_gain.read(), d_shift.read(), d_left.read(), d_right.read(), d_bias.read()};
  }

  // The call leaves its sums and adds `earlier`.
  template <class Args>
  void leave(const Op<Args>& op, const Args& a, LateSums& earlier) {
    Context context = context_of(column);
    parts.push_back(std::make_unique<Placed<float>>(column, Floats(op.late(context, a, x.data()).bytes / 4, NAN)));
    REQUIRE(!parts.back()->read().empty());
    context.late_parts = parts.back()->data(), context.earlier = &earlier;
    run(op, a, context);
    earlier = op.late(context, a, context.late_parts);
  }
  template <class Args>
  void run(const Op<Args>& op, const Args& a, Context context) {
    context.workspace_bytes = op.workspace_bytes ? op.workspace_bytes(context, a) : 0;
    const Placed<float> workspace(column, Floats(context.workspace_bytes / 4 + 1, NAN));
    context.workspace = workspace.data();
    REQUIRE(op.run(context, a) == Status::ok);
    if (column.backend->device.wait) REQUIRE(column.backend->device.wait(context) == Status::ok);
  }

 private:
  static Floats values(std::int64_t count, unsigned seed) {
    Floats v;
    for (std::int64_t i = 0; i < count; ++i) v.push_back(std::sin(static_cast<float>(i * seed + seed)));
    return v;
  }
  std::vector<std::unique_ptr<Placed<float>>> parts;
};

}  // namespace

TEST_CASE("late_sums: every backend within the derived bound of the reference") { check_backends(late_sums_cases()); }
TEST_CASE("late_sums: the same bytes again and for any number of threads") { check_repeat(late_sums_cases()); }

TEST_CASE("late_sums: later calls make the same bytes of the sums as the calls themselves") {
  for (const Column& column : columns()) {
    const Backend& b = *column.backend;
    if (!b.norm_backward.late) continue;
    CAPTURE(column.name);
    Calls now(column), late(column);
    const Context plain = context_of(column);
    for (int i = 0; i < 2; ++i) {
      now.run(b.norm_backward, now.norm(), plain);
      now.run(b.tt_linear_backward, now.linear(), plain);
    }
    LateSums sums;
    late.leave(b.norm_backward, late.norm(), sums);
    CHECK(late.d_gain.read() == Floats(Calls::columns, 1));
    late.leave(b.tt_linear_backward, late.linear(), sums);
    CHECK(late.d_gain.read() != Floats(Calls::columns, 1));
    late.leave(b.norm_backward, late.norm(), sums);
    late.leave(b.tt_linear_backward, late.linear(), sums);
    CHECK(late.gradients() != now.gradients());
    late.run(b.late_sums, sums, plain);
    CHECK(late.gradients() == now.gradients());
  }
}

// A call that launches nothing cannot add what an earlier one has left.
TEST_CASE("late_sums: calls without tokens leave none") {
  for (const Column& column : columns()) {
    const Backend& b = *column.backend;
    if (!b.norm_backward.late) continue;
    const Calls calls(column);
    NormBackward norm = calls.norm();
    TtLinearBackward linear = calls.linear();
    norm.tokens = linear.tokens = 0;
    CHECK(b.norm_backward.late(context_of(column), norm, calls.dx.data()).bytes == 0);
    CHECK(b.tt_linear_backward.late(context_of(column), linear, calls.dx.data()).bytes == 0);
    linear = calls.linear();
    linear.path = Path::library;
    CHECK(b.tt_linear_backward.late(context_of(column), linear, calls.dx.data()).bytes == 0);
  }
}

}  // namespace comera::kernels::test
