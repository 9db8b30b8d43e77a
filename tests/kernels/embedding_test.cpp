#include "kernels/embedding.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "kernels/ttm_embedding.h"
#include "tests/kernels/harness/cases.h"

namespace comera::kernels::test {
namespace {

using Integers = std::vector<std::int64_t>;

// Without offsets, each id is a bag of one.
struct Ids {
  Integers id, offsets;
  std::int64_t period = 0;
  bool weighted = false;

  std::int64_t bags() const { return static_cast<std::int64_t>(offsets.empty() ? id.size() : offsets.size() - 1); }
  std::string name() const {
    return std::to_string(id.size()) + " ids" +
           (offsets.empty() ? "" : std::string(" in ").append(std::to_string(bags())).append(" bags")) +
           (period ? " repeated" : "") + (weighted ? " weighted" : "");
  }
  Bags in(Run& r) const {
    return {bags(),       static_cast<std::int64_t>(id.size()),
            r.ints("id"), offsets.empty() ? nullptr : r.ints("offsets"),
            period,       weighted ? static_cast<const float*>(static_cast<const void*>(r.ints("weights"))) : nullptr};
  }
  // f32 in every representation.
  void add_weights(Case& c) const {
    std::vector<std::uint8_t> bytes(id.size() * sizeof(float));
    for (std::size_t i = 0; i < id.size(); ++i) {
      const float weight = 0.25F * static_cast<float>(i % 5) - 0.375F;
      std::memcpy(bytes.data() + i * sizeof weight, &weight, sizeof weight);
    }
    c.bytes("weights", bytes);
  }
  void add_to(Case& c) const {
    c.integers("id", id);
    if (!offsets.empty()) c.integers("offsets", offsets);
    if (weighted) add_weights(c);
  }
};

// The last two ids belong to no bag.
Ids weighted_ids() { return {{5, 0, 8, 5, 5, 7, 0, 3, 2}, {0, 0, 3, 4, 4, 7}, 0, true}; }
Ids ids_behind_bags() { return {{5, 0, 8, 5, 5, 7, 0, 3, 2}, {0, 2, 3, 7}}; }

Ids random_ids(std::int64_t count, std::int64_t rows) {
  std::mt19937 random(5);
  Ids ids;
  for (std::int64_t i = 0; i < count; ++i) ids.id.push_back(random() % rows);
  return ids;
}

// Ids like the positions of sequences: they start at `first` and repeat with the given period.
Ids repeated_ids(std::int64_t count, std::int64_t first, std::int64_t period) {
  Ids ids;
  for (std::int64_t i = 0; i < count; ++i) ids.id.push_back(first + i % period);
  ids.period = period;
  return ids;
}

Case dense(std::int64_t rows, std::int64_t columns, const Ids& ids, bool accumulate) {
  Case c("dense V=" + std::to_string(rows) + " N=" + std::to_string(columns) + " " + ids.name() +
         (accumulate ? " accumulate" : ""));
  c.data("table", rows, columns).data("d_table", rows, columns).data("d_y", ids.bags(), columns);
  accumulate ? c.data("y", ids.bags(), columns) : c.empty("y", ids.bags(), columns);
  ids.add_to(c);
  c.forward = [=](Run& r) {
    r.call(&Backend::embedding_forward,
           [&] { return EmbeddingForward{ids.in(r), rows, columns, r.in("table"), r.out("y"), accumulate}; });
  };
  c.backward = [=](Run& r) {
    r.call(&Backend::embedding_backward, [&] {
      return EmbeddingBackward{ids.in(r), rows, columns, r.in("d_y"), r.out("d_table")};
    });
  };
  return c.output("y", "d_y").gradient("table", "d_table", true);
}

struct Table {
  Integers m, n, ranks;
  int cut;
  bool masked = true;

  int d() const { return static_cast<int>(m.size()); }
  std::string name() const {
    std::string text = "ttm m";
    for (auto x : m) text.append(" ").append(std::to_string(x));
    text += " n";
    for (auto x : n) text.append(" ").append(std::to_string(x));
    text += " ranks";
    for (auto x : ranks) text.append(" ").append(std::to_string(x));
    return text + " cut " + std::to_string(cut) + (masked ? "" : " no diagonals");
  }
};

std::string numbered(const char* name, int k) { return std::string(name).append(std::to_string(k)); }

TtmTable shape_of(const Table& table) {
  TtmTable t;
  t.d = table.d(), t.cut = table.cut, t.threshold = 0.01;
  std::copy(table.m.begin(), table.m.end(), t.row_modes);
  std::copy(table.n.begin(), table.n.end(), t.column_modes);
  std::copy(table.ranks.begin(), table.ranks.end(), t.ranks);
  return t;
}

enum class Use { merge, look_up, look_up_backward, merge_backward };

const TtmTable* describe(const Table& table, Run& r, Use use) {
  TtmTable t = shape_of(table);
  if (use == Use::merge) t.left = r.out("left"), t.right = r.out("right");
  if (use == Use::look_up || use == Use::look_up_backward)
    t.left = const_cast<void*>(r.in("left")), t.right = const_cast<void*>(r.in("right"));
  if (use == Use::merge_backward) t.d_left = r.in("d_left"), t.d_right = r.in("d_right");
  for (int k = 0; k < t.d && (use == Use::merge || use == Use::merge_backward); ++k) {
    const bool bond = table.masked && k + 1 < t.d;
    t.cores[k] = r.in(numbered("core", k)), t.diagonals[k] = bond ? r.in(numbered("diagonal", k)) : nullptr;
    if (use == Use::merge) continue;
    t.d_cores[k] = r.out(numbered("d_core", k)), t.d_diagonals[k] = bond ? r.out(numbered("d_diagonal", k)) : nullptr;
  }
  return r.keep(t);
}

void add_cores(Case& c, const Table& table) {
  const TtmTable t = shape_of(table);
  for (int k = 0; k < t.d; ++k) {
    const std::int64_t rows = t.ranks[k] * t.row_modes[k] * t.column_modes[k], columns = t.ranks[k + 1];
    c.data(numbered("core", k), rows, columns)
        .data(numbered("d_core", k), rows, columns)
        .gradient(numbered("core", k), numbered("d_core", k), true);
    if (!table.masked || k + 1 == t.d) continue;
    std::vector<double> diagonal(columns);
    const double pattern[] = {0.75, 1.25, -0.5, 0.5, 0.01, 1};
    for (std::int64_t j = 0; j < columns; ++j) diagonal[j] = static_cast<float>(pattern[j % 6]);
    c.values(numbered("diagonal", k), diagonal).data(numbered("d_diagonal", k), 1, columns);
    c.gradient(numbered("diagonal", k), numbered("d_diagonal", k), true);
  }
  c.empty("left", 1, left_elements(t)).empty("right", 1, right_elements(t));
  c.values("d_left", std::vector<double>(left_elements(t))).values("d_right", std::vector<double>(right_elements(t)));
}

Case ttm(const Table& table, const Ids& ids, bool accumulate = false) {
  Case c(table.name() + " " + ids.name() + (accumulate ? " accumulate" : ""));
  const TtmTable t = shape_of(table);
  const std::int64_t columns = left_columns(t) * right_columns(t);
  add_cores(c, table);
  ids.add_to(c);
  c.data("d_y", ids.bags(), columns);
  accumulate ? c.data("y", ids.bags(), columns) : c.empty("y", ids.bags(), columns);
  c.forward = [=](Run& r) {
    r.call(&Backend::ttm_merge, [&] { return TtmMerge{describe(table, r, Use::merge)}; });
    r.call(&Backend::ttm_forward, [&] {
      return TtmForward{ids.in(r), describe(table, r, Use::look_up), r.out("y"), accumulate};
    });
  };
  c.backward = [=](Run& r) {
    r.call(&Backend::ttm_backward, [&] {
      return TtmBackward{ids.in(r), describe(table, r, Use::look_up_backward), r.in("d_y"), r.out("d_left"),
                         r.out("d_right")};
    });
    r.call(&Backend::ttm_merge_backward, [&] { return TtmMergeBackward{describe(table, r, Use::merge_backward)}; });
  };
  return c.output("y", "d_y");
}

void add_tables(std::vector<Case>& cases) {
  const Ids singles{{5, 0, 23, 5, 5, 7, 0, 11}, {}}, bags{{5, 0, 23, 5, 5, 7, 0}, {0, 0, 3, 4, 4, 7, 7}};
  const Integers m{2, 3, 2, 2}, n{2, 1, 3, 2}, ranks{1, 2, 3, 2, 1};
  for (int cut : {1, 2, 3}) {
    cases.push_back(ttm({m, n, ranks, cut}, singles));
    cases.push_back(ttm({m, n, ranks, cut}, bags, cut == 2));
    cases.push_back(ttm({m, n, ranks, cut}, weighted_ids(), cut == 2));
    cases.push_back(ttm({m, n, ranks, cut}, ids_behind_bags(), cut == 1));
  }
  cases.push_back(ttm({m, n, ranks, 2, false}, singles, true));
  cases.push_back(ttm({{24}, {5}, {1, 1}, 1}, singles));
  cases.push_back(ttm({{4, 6}, {3, 2}, {1, 7, 1}, 1}, bags));
  cases.push_back(ttm({{4, 3, 2}, {2, 2, 2}, {1, 6, 9, 1}, 1}, singles));
  cases.push_back(ttm({{4, 3, 2}, {2, 2, 2}, {1, 6, 9, 1}, 2}, singles));
  cases.push_back(ttm({{4, 1, 6}, {1, 4, 1}, {1, 1, 1, 1}, 2}, bags));
  cases.push_back(ttm({m, n, {1, 2, 0, 2, 1}, 2}, singles));
  cases.push_back(ttm({{5, 4, 5, 3}, {4, 4, 4, 3}, {1, 16, 16, 12, 1}, 2}, random_ids(200, 299)));
  cases.push_back(ttm({{3, 4}, {33, 35}, {1, 34, 1}, 1}, {{5, 0, 11, 5, 7}, {}}));  // wider than a warp's tile
  cases.push_back(ttm({m, n, ranks, 2}, {{}, {0, 0}}));
}

}  // namespace

static std::vector<Case> embedding_cases() {
  std::vector<Case> cases;
  const Ids singles{{5, 0, 8, 5, 5, 7, 0}, {}}, bags{{5, 0, 8, 5, 5, 7, 0}, {0, 0, 3, 4, 4, 7, 7}};
  for (bool accumulate : {false, true}) {
    cases.push_back(dense(9, 5, singles, accumulate));
    cases.push_back(dense(9, 40, bags, accumulate));
    cases.push_back(dense(9, 40, weighted_ids(), accumulate));
    cases.push_back(dense(9, 5, ids_behind_bags(), accumulate));
  }
  cases.push_back(dense(50, 96, random_ids(300, 50), false));
  cases.push_back(dense(3, 4, {{}, {0, 0, 0}}, false));
  // Runs of hundreds; more ids than are sorted in small tiles.
  cases.push_back(dense(7, 2, random_ids(5000, 7), false));
  cases.push_back(dense(7, 5, repeated_ids(43, 2, 4), false));  // the last sequence is incomplete
  cases.push_back(dense(40, 96, repeated_ids(300, 0, 37), false));
  cases.push_back(dense(9, 8, repeated_ids(3, 1, 8), false));    // less than one sequence
  cases.push_back(dense(3, 4, repeated_ids(600, 0, 2), false));  // more of each id than one thread adds
  cases.push_back(dense(2, 5, random_ids(75, 2), false));
  cases.push_back(dense(2, 264, random_ids(13000, 2), false));  // more than the blocks can hold partial sums of at once
  cases.push_back(dense(1, 8, random_ids(40, 1), false));
  add_tables(cases);
  return cases;
}

COMERA_TEST_CASES("embedding", embedding_cases)

}  // namespace comera::kernels::test
