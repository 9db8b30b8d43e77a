#include "kernels/cross_entropy.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/kernels/harness/cases.h"

namespace comera::kernels::test {
namespace {

struct Shape {
  std::int64_t rows, classes, chunk;  // number of classes per chunk
  bool ties = false, counts_correct = true;
  std::int64_t gap = 0;
  double scale = 1;

  std::string name() const {
    return "K=" + std::to_string(rows) + " V=" + std::to_string(classes) + " by " + std::to_string(chunk) +
           (ties ? " ties" : "") + (counts_correct ? "" : " loss only") + (gap ? " gaps" : "") +
           (scale != 1 ? " large logits" : "");
  }
};

CrossEntropyChunk chunk_of(const Shape& s, Run& r, std::int64_t first) {
  CrossEntropyChunk a;
  a.rows = s.rows, a.columns = std::min(s.chunk, s.classes - first), a.first = first, a.start = first == 0;
  a.logits = r.in_at("logits", first), a.ld = s.classes + s.gap, a.targets = r.ints("targets");
  a.maximum = r.out("maximum"), a.sum = r.out("sum"), a.target_logit = r.out("target_logit"),
  a.best = static_cast<std::int32_t*>(r.out("best"));
  return a;
}

CrossEntropyLoss loss_of(const Shape& s, Run& r) {
  CrossEntropyLoss a;
  a.rows = s.rows, a.targets = r.ints("targets"), a.maximum = r.in("maximum"), a.sum = r.in("sum"),
  a.target_logit = r.in("target_logit");
  a.best = r.ints("best"), a.loss_scale = r.doubles("loss_scale"), a.loss = r.out("loss");
  a.correct = s.counts_correct ? static_cast<double*>(r.out("correct")) : nullptr;
  return a;
}

CrossEntropyBackward backward_of(const Shape& s, Run& r, std::int64_t first) {
  CrossEntropyBackward a;
  a.rows = s.rows, a.columns = std::min(s.chunk, s.classes - first), a.first = first;
  a.logits = r.out_at("logits", first), a.ld = s.classes + s.gap, a.targets = r.ints("targets");
  a.maximum = r.in("maximum"), a.sum = r.in("sum"), a.loss_scale = r.doubles("loss_scale");
  return a;
}

Case cross_entropy(const Shape& s) {
  Case c(s.name());
  c.data("logits", s.rows, s.classes, s.classes + s.gap, s.scale);
  if (s.ties)
    for (double& x : c.tensor("logits").start) x = std::round(x);
  std::vector<std::int64_t> targets;
  for (std::int64_t i = 0; i < s.rows; ++i) targets.push_back(i % 3 == 1 ? -1 : (5 * i + 2) % s.classes);
  c.integers("targets", targets).empty("maximum", 1, s.rows).empty("sum", 1, s.rows).empty("target_logit", 1, s.rows);
  c.tensor("target_logit").loose = true;
  c.integers("best", std::vector<std::int64_t>(s.rows, 7))
      .values("loss", {0.5}, Content::wide)
      .values("correct", {2}, Content::f64);
  c.values("loss_scale", {0.125}, Content::f64);
  c.forward = [s](Run& r) {
    for (std::int64_t first = 0; first < s.classes; first += s.chunk)
      r.call(&Backend::cross_entropy_chunk, [&] { return chunk_of(s, r, first); });
    r.call(&Backend::cross_entropy_loss, [&] { return loss_of(s, r); });
  };
  c.backward = [s](Run& r) {
    for (std::int64_t first = 0; first < s.classes; first += s.chunk)
      r.call(&Backend::cross_entropy_backward, [&] { return backward_of(s, r, first); });
  };
  return c.output("loss").gradient("logits", "logits");
}

}  // namespace

static std::vector<Case> cross_entropy_cases() {
  std::vector<Case> cases;
  cases.push_back(cross_entropy({7, 5, 5}));
  cases.push_back(cross_entropy({7, 5, 2}));
  cases.push_back(cross_entropy({1, 1, 1}));
  cases.push_back(cross_entropy({2, 3, 1, true}));
  cases.push_back(cross_entropy({20, 40, 16, true}));
  cases.push_back(cross_entropy({9, 33, 33, false, false, 3}));
  cases.push_back(cross_entropy({33, 200, 64, false, true, 5}));
  cases.push_back(cross_entropy({10, 37, 37, false, true, 0, 40}));
  cases.push_back(cross_entropy({4, 3000, 1024}));
  return cases;
}

COMERA_TEST_CASES("cross_entropy", cross_entropy_cases)

}  // namespace comera::kernels::test
