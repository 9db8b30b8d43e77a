#include "kernels/tt_cores.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "tests/kernels/harness/cases.h"

namespace comera::kernels::test {
namespace {

struct Matrix {
  std::vector<std::int64_t> modes, ranks;  // d + e, d + e + 1; with a gauge, the last mode is the stored one
  bool masked = true;
  int in_modes = 0;  // 0: half of the modes
  bool sorted = false;
  std::vector<std::int64_t> gauge = {};

  int d() const { return in_modes > 0 ? in_modes : static_cast<int>(modes.size()) / 2; }
  int cores() const { return static_cast<int>(modes.size()); }
  std::int64_t rank() const { return ranks[d()]; }
  std::int64_t rows() const { return product_of(modes.data(), 0, d()); }
  std::int64_t columns() const {
    return product_of(modes.data(), d(), cores()) + static_cast<std::int64_t>(gauge.size());
  }
};

std::string numbered(const char* name, std::size_t i, int k = -1) {
  std::string text(name);
  text += std::to_string(i);
  if (k >= 0) text.append(".").append(std::to_string(k));
  return text;
}

// Several matrices with the same rows. Their left factors are concatenated by columns.
struct Layers {
  std::vector<Matrix> matrices;
  double threshold = 0.01;

  std::int64_t width() const {
    std::int64_t sum = 0;
    for (const Matrix& m : matrices) sum += padded_rank(m.rank());
    return sum;
  }
};

std::string name_of(const Layers& layers) {
  std::string text;
  for (const Matrix& m : layers.matrices) {
    text += "modes";
    for (auto mode : m.modes) text.append(" ").append(std::to_string(mode));
    text += " ranks";
    for (auto rank : m.ranks) text.append(" ").append(std::to_string(rank));
    if (m.in_modes > 0) text += " in " + std::to_string(m.in_modes);
    text += std::string(m.sorted ? " sorted" : "") + (m.gauge.empty() ? "" : " gauge") +
            (m.masked ? "; " : " no diagonals; ");
  }
  return text + "threshold " + std::to_string(layers.threshold).substr(0, 4);
}

TtMatrix* describe(const Layers& layers, Run& r, bool backward) {
  std::int64_t offset = 0;
  std::vector<TtMatrix>& result = *r.keep(std::vector<TtMatrix>(layers.matrices.size()));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const Matrix& m = layers.matrices[i];
    TtMatrix& t = result[i];
    t.d = m.d(), t.e = m.cores() - m.d(), t.threshold = layers.threshold, t.ld_left = layers.width();
    if (m.sorted) t.order = r.ints(numbered("order", i));
    if (!m.gauge.empty()) t.gauge = r.ints(numbered("gauge", i));
    std::copy(m.modes.begin(), m.modes.end(), t.modes);
    std::copy(m.ranks.begin(), m.ranks.end(), t.ranks);
    for (int k = 0; k < m.cores(); ++k) {
      const bool bond = m.masked && k + 1 < m.cores();
      t.cores[k] = r.in(numbered("core", i, k)), t.diagonals[k] = bond ? r.in(numbered("diagonal", i, k)) : nullptr;
      if (!backward) continue;
      t.d_cores[k] = r.out(numbered("d_core", i, k)),
      t.d_diagonals[k] = bond ? r.out(numbered("d_diagonal", i, k)) : nullptr;
    }
    if (backward) t.d_left = r.in_at("d_left", offset), t.d_right = r.in(numbered("d_right", i));
    if (!backward) t.left = r.out_at("left", offset), t.right = r.out(numbered("right", i));
    offset += padded_rank(m.rank());
  }
  return result.data();
}

// Active, masked, negative and threshold-equal entries in turn. The first entry is always active.
std::vector<double> diagonal(std::int64_t rank, double threshold) {
  std::vector<double> d(rank);
  const double pattern[] = {0.75, 1.25, -0.5, 0.5, static_cast<float>(threshold), 0.125, 0.001, 1};
  for (std::int64_t j = 0; j < rank; ++j) d[j] = pattern[j % 8];
  for (double& x : d) x = static_cast<float>(x);
  return d;
}

// A permutation without a simple pattern: steps of a number that is prime to the length.
std::vector<std::int64_t> shuffled(std::int64_t rows) {
  std::int64_t step = rows / 2 + 1;
  while (std::gcd(step, rows) != 1) ++step;
  std::vector<std::int64_t> order;
  for (std::int64_t p = 0; p < rows; ++p) order.push_back((p * step + 1) % rows);
  return order;
}

void add_matrix(Case& c, const Layers& layers, std::size_t i) {
  const Matrix& m = layers.matrices[i];
  for (int k = 0; k < m.cores(); ++k) {
    const std::int64_t rows = m.ranks[k] * m.modes[k], columns = m.ranks[k + 1];
    c.data(numbered("core", i, k), rows, columns).data(numbered("d_core", i, k), rows, columns);
    c.gradient(numbered("core", i, k), numbered("d_core", i, k), true);
    if (!m.masked || k + 1 == m.cores()) continue;
    c.values(numbered("diagonal", i, k), diagonal(columns, layers.threshold))
        .data(numbered("d_diagonal", i, k), 1, columns);
    c.gradient(numbered("diagonal", i, k), numbered("d_diagonal", i, k), true);
  }
  if (m.sorted) c.integers(numbered("order", i), shuffled(m.rows()));
  if (!m.gauge.empty()) c.integers(numbered("gauge", i), m.gauge);
  c.empty(numbered("right", i), padded_rank(m.rank()), m.columns())
      .data(numbered("d_right", i), padded_rank(m.rank()), m.columns());
  c.output(numbered("right", i), numbered("d_right", i));
}

Case merged(const Layers& layers) {
  Case c(name_of(layers));
  c.empty("left", layers.matrices[0].rows(), layers.width())
      .data("d_left", layers.matrices[0].rows(), layers.width())
      .output("left", "d_left");
  for (std::size_t i = 0; i < layers.matrices.size(); ++i) add_matrix(c, layers, i);
  const int count = static_cast<int>(layers.matrices.size());
  c.forward = [=](Run& r) { r.call(&Backend::tt_merge, [&] { return TtMerge{describe(layers, r, false), count}; }); };
  c.backward = [=](Run& r) {
    r.call(&Backend::tt_merge_backward, [&] { return TtMergeBackward{describe(layers, r, true), count}; });
  };
  return c;
}

// Rows, columns and inner indices beyond a block's tile and a sum's slice, and more matrices than one CUDA launch
// describes. The gradients are left out because smaller cases test them.
void add_large(std::vector<Case>& cases) {
  for (const Layers& layers : {Layers{{{{600, 5}, {1, 3, 1}}}}, Layers{{{{300, 3, 4}, {1, 2, 3, 1}, true, 2}}},
                               Layers{{{{2, 40, 5}, {1, 2, 7, 1}, true, 2}}},
                               Layers{std::vector<Matrix>(90, Matrix{{2, 1, 1, 2}, {1, 2, 1, 2, 1}})}}) {
    cases.push_back(merged(layers));
    cases.back().gradients.clear();
  }
}

}  // namespace

static std::vector<Case> tt_cores_cases() {
  const Matrix attention{{4, 3, 2, 2, 3, 4}, {1, 4, 9, 8, 7, 4, 1}};
  std::vector<Case> cases;
  cases.push_back(merged({{{{6, 5}, {1, 4, 1}}}}));
  cases.push_back(merged({{{{6, 5}, {1, 20, 1}, false}}}));
  cases.push_back(merged({{{{3, 4, 2, 5}, {1, 3, 6, 4, 1}}}}));
  cases.push_back(merged({{attention}}));
  cases.push_back(merged({{attention}, 0.1}));
  cases.push_back(merged({{{attention.modes, attention.ranks, false}}}));
  cases.push_back(merged({{{{2, 3, 2, 2, 3, 2, 2, 2}, {1, 2, 5, 4, 6, 4, 3, 2, 1}}}}));
  cases.push_back(merged({{{{2, 3, 2, 2, 3, 2}, {1, 1, 1, 1, 1, 1, 1}}}}));
  cases.push_back(merged({{{{2, 1, 3, 1, 3, 1}, {1, 2, 2, 3, 3, 2, 1}}}}));
  cases.push_back(merged({{{{1, 1}, {1, 1, 1}}}}));
  cases.push_back(merged({{{{4, 3, 2, 6}, {1, 4, 0, 6, 1}}}}));
  cases.push_back(merged(
      {{attention, {{4, 6, 5, 7}, {1, 4, 17, 5, 1}}, {{24, 10}, {1, 2, 1}, false}, {{4, 6, 2, 2}, {1, 2, 0, 2, 1}}}}));
  cases.push_back(merged({{{{4, 3, 2, 5}, {1, 4, 9, 8, 1}, true, 3}}}));
  cases.push_back(merged({{{{6, 2, 3, 2}, {1, 5, 4, 2, 1}, true, 1}}}));
  cases.push_back(merged({{{{4, 6, 7}, {1, 4, 9, 1}, false, 2, true}}}));
  cases.push_back(merged({{{{4, 6, 3}, {1, 4, 5, 1}, true, 2, true, {7, 0, 3, 1, 6}}}}));
  cases.push_back(merged(
      {{{{12, 20}, {1, 4, 1}, false, 1, false, {23, 5, 6, 0}}, {{4, 3, 17}, {1, 4, 1, 1}, true, 2, true, {9}}}}));
  cases.push_back(merged({{{{4, 3}, {1, 3, 1}, false, 1, true, {0, 1, 2}}}}));
  add_large(cases);
  cases.push_back(merged({{{{12, 8, 8, 8, 8, 12}, {1, 12, 30, 30, 30, 12, 1}}}}));
  cases.back().full = true;
  return cases;
}

COMERA_TEST_CASES("tt_cores", tt_cores_cases)

}  // namespace comera::kernels::test
