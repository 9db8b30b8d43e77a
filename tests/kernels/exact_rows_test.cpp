#include "kernels/exact_rows.h"

#include <catch2/catch.hpp>
#include <random>

#include "tests/kernels/harness/cases.h"

namespace comera::kernels::test {
namespace {

using Integers = std::vector<std::int64_t>;

// y starts with the result of the chain.
Case exact(const Integers& id, const Integers& rows, std::int64_t columns) {
  const auto tokens = static_cast<std::int64_t>(id.size()), count = static_cast<std::int64_t>(rows.size());
  Case c("K=" + std::to_string(tokens) + " E=" + std::to_string(count) + " N=" + std::to_string(columns));
  c.integers("id", id).integers("row_ids", rows);
  c.data("rows", count, columns).data("d_rows", count, columns).data("y", tokens, columns);
  c.data("d_y", tokens, columns).empty("d_chain", tokens, columns);
  const auto ids_of = [=](Run& r) { return ExactIds{tokens, r.ints("id"), count, columns, r.ints("row_ids")}; };
  c.forward = [=](Run& r) {
    r.call(&Backend::exact_rows_forward, [&] { return ExactRowsForward{ids_of(r), r.in("rows"), r.out("y")}; });
  };
  c.backward = [=](Run& r) {
    r.call(&Backend::exact_rows_backward, [&] {
      return ExactRowsBackward{ids_of(r), r.in("d_y"), r.out("d_rows"), r.out("d_chain")};
    });
  };
  return c.output("y", "d_y").gradient("rows", "d_rows", true).gradient("y", "d_chain");
}

Integers random_ids(std::int64_t count, std::int64_t limit) {
  std::mt19937 random(5);
  Integers ids;
  for (std::int64_t i = 0; i < count; ++i) ids.push_back(random() % limit);
  return ids;
}

}  // namespace

static std::vector<Case> exact_rows_cases() {
  Integers every_third;
  for (std::int64_t id = 0; id < 50; id += 3) every_third.push_back(id);
  return {exact({5, 0, 23, 5, 5, 7, 0, 11}, {0, 5, 7}, 5),
          exact({5, 0, 23, 5, 5, 7, 0, 11}, {23}, 40),
          exact({5, 0, 23}, {1, 6, 24}, 8),  // no token has an exact row
          exact({3, 3, 3, 3}, {3}, 1),
          exact({}, {2, 4}, 4),
          exact(random_ids(300, 50), every_third, 96),
          exact(random_ids(5000, 7), {1, 2, 5}, 2)};  // runs of hundreds; more ids than are sorted in small tiles
}

COMERA_TEST_CASES("exact_rows", exact_rows_cases)

}  // namespace comera::kernels::test
