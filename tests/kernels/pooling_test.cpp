#include "kernels/pooling.h"

#include <catch2/catch.hpp>

#include "tests/kernels/harness/cases.h"

namespace comera::kernels::test {
namespace {

struct Shape {
  Pooling pooling;
  bool normalise;
  std::int64_t length, columns;
  std::vector<std::int64_t> lengths;

  std::int64_t sequences() const { return static_cast<std::int64_t>(lengths.size()); }
  std::string name() const {
    return std::string(pooling == Pooling::mean ? "mean" : "first") + (normalise ? " normalised" : "") +
           " B=" + std::to_string(sequences()) + " T=" + std::to_string(length) + " N=" + std::to_string(columns);
  }
};

PoolForward forward_of(const Shape& s, Run& r) {
  PoolForward a;
  a.pooling = s.pooling, a.normalise = s.normalise;
  a.sequences = s.sequences(), a.length = s.length, a.columns = s.columns;
  a.lengths = r.ints("lengths"), a.x = r.in("x"), a.y = r.out("y"), a.norm = s.normalise ? r.out("norm") : nullptr;
  return a;
}

PoolBackward backward_of(const Shape& s, Run& r) {
  PoolBackward a;
  a.pooling = s.pooling, a.normalise = s.normalise;
  a.sequences = s.sequences(), a.length = s.length, a.columns = s.columns;
  a.lengths = r.ints("lengths"), a.dy = r.in("d_y"), a.dx = r.out("d_x");
  if (s.normalise) a.y = r.in("y"), a.norm = r.in("norm");
  return a;
}

Case pooling(const Shape& s) {
  Case c(s.name());
  c.data("x", s.sequences() * s.length, s.columns).integers("lengths", s.lengths).empty("y", s.sequences(), s.columns);
  c.data("d_y", s.sequences(), s.columns).empty("d_x", s.sequences() * s.length, s.columns);
  if (s.normalise) c.empty("norm", 1, s.sequences());
  c.forward = [s](Run& r) { r.call(&Backend::pool_forward, [&] { return forward_of(s, r); }); };
  c.backward = [s](Run& r) { r.call(&Backend::pool_backward, [&] { return backward_of(s, r); }); };
  return c.output("y", "d_y").gradient("x", "d_x");
}

}  // namespace

static std::vector<Case> pooling_cases() {
  std::vector<Case> cases;
  for (const Pooling kind : {Pooling::mean, Pooling::first})
    for (const bool normalise : {false, true}) {
      cases.push_back(pooling({kind, normalise, 5, 7, {5, 1, 3}}));
      cases.push_back(pooling({kind, normalise, 1, 33, {1}}));
      cases.push_back(pooling({kind, normalise, 24, 384, {24, 7, 1, 19}}));
    }
  return cases;
}

COMERA_TEST_CASES("pooling", pooling_cases)

}  // namespace comera::kernels::test
