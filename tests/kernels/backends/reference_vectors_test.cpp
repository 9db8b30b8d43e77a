// Literal values of one TT layer, one TTM table and the penalties, with masked, negative and threshold-equal diagonals.
// An independent program computed them in double; finite differences confirmed them. They have nine decimals.
#include <catch2/catch.hpp>
#include <numeric>
#include <vector>

#include "kernels/backend.h"
#include "kernels/linear.h"
#include "kernels/rank_objective.h"
#include "kernels/tt_cores.h"
#include "kernels/tt_linear.h"
#include "kernels/ttm_embedding.h"

using namespace comera::kernels;
using Numbers = std::vector<double>;

namespace {

const Backend& reference = reference_backend();

Context context_f64() {
  Context context;
  context.dtype = DType::f64;
  return context;
}

// v[k] = (((7k + 3s) mod 11) - 5) / 4
Numbers filled(std::int64_t count, int s) {
  Numbers v(count);
  for (std::int64_t k = 0; k < count; ++k) v[k] = static_cast<double>((7 * k + 3 * s) % 11 - 5) / 4;
  return v;
}

double dot(const Numbers& a, const Numbers& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }

void check_close(const Numbers& got, const Numbers& wanted) {
  REQUIRE(got.size() == wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(wanted[i]).margin(6e-10).epsilon(0));
}

template <class Args>
void call(const Op<Args>& op, const Args& args) {
  REQUIRE(op.run(context_f64(), args) == Status::ok);
}

// The layer [2,3,2] x [3,2,2] with ranks [1,2,3,4,3,2,1].
struct TtVector {
  std::vector<std::int64_t> modes{2, 3, 2, 3, 2, 2}, ranks{1, 2, 3, 4, 3, 2, 1};
  std::vector<Numbers> cores, d_cores;
  std::vector<Numbers> diagonals{{1, .75}, {.75, .5, 1}, {.5, .005, .75, .5}, {1, .75, .5}, {.75, .5}}, d_diagonals;
  Numbers x = filled(24, 7), dy = filled(24, 8), y, dx, left, right, d_left, d_right, t1, u1;
  TtMatrix matrix;

  TtVector() {
    for (int i = 0; i < 6; ++i) cores.push_back(filled(ranks[i] * modes[i] * ranks[i + 1], i + 1));
    for (const Numbers& core : cores) d_cores.push_back(Numbers(core.size()));
    for (const Numbers& d : diagonals) d_diagonals.push_back(Numbers(d.size()));
  }

  void describe() {
    matrix.d = matrix.e = 3, matrix.threshold = .01, matrix.ld_left = 16;
    for (int i = 0; i < 6; ++i)
      matrix.modes[i] = modes[i], matrix.cores[i] = cores[i].data(), matrix.d_cores[i] = d_cores[i].data();
    for (int i = 0; i < 7; ++i) matrix.ranks[i] = ranks[i];
    for (int i = 0; i < 5; ++i)
      matrix.diagonals[i] = diagonals[i].data(), matrix.d_diagonals[i] = d_diagonals[i].data();
    left = d_left = right = d_right = Numbers(12 * 16);
    matrix.left = left.data(), matrix.right = right.data(), matrix.d_left = d_left.data(),
    matrix.d_right = d_right.data();
  }

  void forward() {
    describe();
    call(reference.tt_merge, TtMerge{&matrix, 1});
    TtLinearForward a;
    a.tokens = 2, a.in = 12, a.width = 16, a.x = x.data(), a.ldx = 12, a.left = left.data();
    t1 = u1 = Numbers(2 * 16), y = dx = Numbers(24);
    a.t1 = t1.data(), a.outputs = 1, a.output[0].out = 12, a.output[0].rank = 16, a.output[0].right = right.data();
    a.output[0].y = y.data(), a.output[0].ldy = 12;
    call(reference.tt_linear_forward, a);
  }

  void backward() {
    TtLinearBackward a;
    a.tokens = 2, a.in = 12, a.width = 16, a.t1 = t1.data(), a.left = left.data(), a.u1 = u1.data(), a.dx = dx.data(),
    a.lddx = 12;
    a.outputs = 1, a.output[0].out = 12, a.output[0].rank = 16, a.output[0].right = right.data(), a.output[0].ldy = 12;
    a.output[0].dy = dy.data(), a.output[0].d_right = d_right.data();
    call(reference.tt_linear_backward, a);
    Product product;
    product.tokens = 2, product.in = 12, product.out = 16, product.x = x.data(), product.ldx = 12,
    product.g = u1.data(), product.ldg = 16;
    product.result = d_left.data(), product.ld_result = 16;
    call(reference.product, product);
    call(reference.tt_merge_backward, TtMergeBackward{&matrix, 1});
  }
};

TEST_CASE("TT vectors: forward and backward") {
  TtVector v;
  v.forward();
  v.backward();
  check_close(v.y, {0.022604942,  0.054543972,  0.003209352,  -0.046450853, 0.157831192,  0.139795303,
                    -0.033536911, -0.027342796, -0.702692986, 0.153921604,  -0.212533236, -0.292734861,
                    0.572499275,  -0.204324245, 0.17990756,   0.310666323,  0.518606186,  -0.238300323,
                    0.194552422,  0.303050995,  0.887686729,  -0.242063999, 0.269622087,  0.416285276});
  check_close(v.dx, {-0.238779545, 0.082032681,  0.248521328,  -0.219175816, 0.735822201,  -0.520384312,
                     0.20942831,   -0.10010004,  -0.138643742, 0.115048885,  -0.486715794, 0.330197811,
                     0.139689922,  -0.089689732, -0.462092876, 0.256696701,  -1.063875675, 0.603083134,
                     -0.184040546, 0.111354351,  0.24580431,   -0.136064529, 0.675649166,  -0.38348341});
  const Numbers sums{0.267522812, -6.818374634, 0.056388378, -0.056461573, 0.728239059, 0.605570555};
  const Numbers squares{19.339983671, 133.421367790, 17.584543804, 5.028304178, 3.487550200, 10.321953417};
  for (int i = 0; i < 6; ++i) {
    CHECK(std::accumulate(v.d_cores[i].begin(), v.d_cores[i].end(), 0.0) == Approx(sums[i]).margin(6e-10).epsilon(0));
    CHECK(dot(v.d_cores[i], v.d_cores[i]) == Approx(squares[i]).margin(6e-10).epsilon(0));
  }
  check_close(v.d_diagonals[0], {-1.533928871, 5.923383713});
  check_close(v.d_diagonals[1], {5.14248085, -7.259644508, 2.68157053});
  check_close(v.d_diagonals[2], {-0.237364769, 0.0, 2.313388824, 2.584499359});
  check_close(v.d_diagonals[3], {1.033410072, 2.130329132, 0.554903984});
  check_close(v.d_diagonals[4], {2.98551321, 1.338948011});
  CHECK(v.d_diagonals[2][1] == 0);
  CHECK(dot(v.y, v.dy) == Approx(2.908608913421631).epsilon(1e-15));
}

TEST_CASE("TT vectors: negative entries and entries equal to the threshold are masked") {
  TtVector v;
  v.diagonals[1][0] = -.75;
  v.diagonals[3][2] = .01;
  v.forward();
  v.backward();
  CHECK(dot(v.y, v.dy) == Approx(-0.6136436462).margin(6e-11).epsilon(0));
  CHECK(v.d_diagonals[1][0] == 0);
  CHECK(v.d_diagonals[3][2] == 0);
}

TEST_CASE("TT vectors: penalties R, S and S^") {
  TtVector v;
  RankChain chain;
  chain.cores = 6;
  for (int i = 0; i < 6; ++i) chain.sizes[i] = v.modes[i];
  for (int i = 0; i < 7; ++i) chain.ranks[i] = v.ranks[i];
  for (int i = 0; i < 5; ++i) chain.diagonals[i] = v.diagonals[i].data();
  const double loss = 1;
  RankState state;
  RankMeasure measure{&chain, 1, .01, RankPenalty::size, &loss, &state};
  call(reference.rank_measure, measure);
  CHECK(state.size == 83);
  CHECK(state.surrogate == 43.125);
  CHECK(state.active == 13);
  measure.penalty = RankPenalty::mean;
  call(reference.rank_measure, measure);
  CHECK(state.surrogate == Approx(.711538).margin(6e-7).epsilon(0));
}

// The table [2,3,2,2] x [2,1,3,2] with ranks [1,2,3,2,1], cut into factors at `cut`.
struct TtmVector {
  std::vector<std::int64_t> m{2, 3, 2, 2}, n{2, 1, 3, 2}, ranks{1, 2, 3, 2, 1};
  std::vector<Numbers> cores, d_cores, diagonals, d_diagonals;
  Numbers left, right, d_left, d_right;
  TtmTable table;

  TtmVector(int cut, std::vector<Numbers> d) : diagonals(std::move(d)) {
    table.d = 4, table.cut = cut, table.threshold = .01;
    for (int k = 0; k < 4; ++k) {
      cores.push_back(filled(ranks[k] * m[k] * n[k] * ranks[k + 1], 11 + k));
      d_cores.push_back(Numbers(cores[k].size()));
      table.row_modes[k] = m[k], table.column_modes[k] = n[k];
    }
    for (const Numbers& v : diagonals) d_diagonals.push_back(Numbers(v.size()));
    for (int k = 0; k < 5; ++k) table.ranks[k] = ranks[k];
    for (int k = 0; k < 4; ++k) table.cores[k] = cores[k].data(), table.d_cores[k] = d_cores[k].data();
    for (std::size_t k = 0; k < diagonals.size(); ++k)
      table.diagonals[k] = diagonals[k].data(), table.d_diagonals[k] = d_diagonals[k].data();
    left = d_left = Numbers(left_elements(table)), right = d_right = Numbers(right_elements(table));
    table.left = left.data(), table.right = right.data(), table.d_left = d_left.data(), table.d_right = d_right.data();
    call(reference.ttm_merge, TtmMerge{&table});
  }

  Numbers rows(const std::vector<std::int32_t>& ids) {
    Numbers y(ids.size() * 12);
    call(reference.ttm_forward, TtmForward{bags(ids), &table, y.data(), false});
    return y;
  }
  void backward(const std::vector<std::int32_t>& ids, const Numbers& dy) {
    call(reference.ttm_backward, TtmBackward{bags(ids), &table, dy.data(), d_left.data(), d_right.data()});
    call(reference.ttm_merge_backward, TtmMergeBackward{&table});
  }
  static Bags bags(const std::vector<std::int32_t>& ids) {
    const auto count = static_cast<std::int64_t>(ids.size());
    return {count, count, ids.data(), nullptr};
  }
};

TEST_CASE("TTM vectors: rows without a mask") {
  const int cut = GENERATE(1, 2, 3);
  TtmVector v(cut, {});
  check_close(v.rows({0}), {0.75, 1.640625, 0.33984375, -1.11328125, -1.1015625, -1.2890625, -1.32421875, -1.23046875,
                            -0.421875, 0.703125, 1.51171875, 0.05859375});
  check_close(v.rows({5}), {-2.0078125, 1.79296875, -1.515625, 1.03125, 3.2734375, -2.6953125, -0.5078125, 0.5859375,
                            -3.1328125, 2.4140625, 3.1796875, -2.71875});
  check_close(v.rows({23}), {0.140625, -0.23046875, 0.1875, -0.25390625, 1.8671875, -1.4375, 1.6875, -1.484375, 1.875,
                             -1.578125, 0.34375, -0.125});
}

TEST_CASE("TTM vectors: masked diagonals, duplicate ids, gradients") {
  const int cut = GENERATE(1, 2, 3);
  TtmVector v(cut, {{1, .5}, {.75, .005, .5}, {.75, -.5}});
  const std::vector<std::int32_t> ids{5, 0, 23, 5};
  const Numbers dy = filled(48, 15);
  CHECK(dot(v.rows(ids), dy) == Approx(6.038360596).margin(6e-10).epsilon(0));
  v.backward(ids, dy);
  const Numbers sums{-.164794922, -3.939331055, 1.827026367, -.28125};
  for (int k = 0; k < 4; ++k)
    CHECK(std::accumulate(v.d_cores[k].begin(), v.d_cores[k].end(), 0.0) == Approx(sums[k]).margin(6e-10).epsilon(0));
  check_close(v.d_diagonals[0], {3.684631348, 4.707458496});
  check_close(v.d_diagonals[1], {7.722290039, 0, .493286133});
  check_close(v.d_diagonals[2], {8.051147461, 0});
}

}  // namespace
