#include "kernels/distillation.h"

#include <catch2/catch.hpp>

#include "tests/kernels/harness/cases.h"

namespace comera::kernels::test {
namespace {

struct Vectors {
  Distance distance;
  std::int64_t length, columns;
  std::vector<std::int64_t> lengths;
  bool padded = true, accumulate = false;

  std::int64_t sequences() const { return static_cast<std::int64_t>(lengths.size()); }
  std::string name() const {
    return std::string(distance == Distance::squared ? "squared" : "cosine") + " B=" + std::to_string(sequences()) +
           " T=" + std::to_string(length) + " N=" + std::to_string(columns) + (padded ? "" : " no padding") +
           (accumulate ? " added" : "");
  }
};

template <class Args>
Args vectors_of(const Vectors& s, Run& r) {
  Args a;
  a.distance = s.distance, a.sequences = s.sequences(), a.length = s.length, a.columns = s.columns;
  a.lengths = s.padded ? r.ints("lengths") : nullptr;
  a.x = r.in("x"), a.target = r.in("target"), a.weight = 0.75, a.scale = r.doubles("scale");
  return a;
}

Case distances(const Vectors& s) {
  Case c(s.name());
  const std::int64_t rows = s.sequences() * s.length;
  c.data("x", rows, s.columns)
      .data("target", rows, s.columns)
      .integers("lengths", s.lengths)
      .values("scale", {0.125}, Content::f64);
  c.empty("distances", 1, rows).values("loss", {0.5}, Content::wide);
  if (s.accumulate)
    c.data("d_x", rows, s.columns);
  else
    c.empty("d_x", rows, s.columns);
  c.forward = [s](Run& r) {
    r.call(&Backend::vector_distance, [&] {
      VectorDistance a = vectors_of<VectorDistance>(s, r);
      a.distances = r.out("distances"), a.loss = r.out("loss");
      return a;
    });
  };
  c.backward = [s](Run& r) {
    r.call(&Backend::vector_distance_backward, [&] {
      auto a = vectors_of<VectorDistanceBackward>(s, r);
      a.dx = r.out("d_x"), a.accumulate = s.accumulate;
      return a;
    });
  };
  return c.output("loss").gradient("x", "d_x", s.accumulate);
}

struct Logits {
  std::int64_t rows, classes, chunk;
  double temperature = 1, scale = 1;
  bool masked = false;

  std::string name() const {
    return "divergence K=" + std::to_string(rows) + " V=" + std::to_string(classes) + " by " + std::to_string(chunk) +
           " t=" + std::to_string(temperature).substr(0, 3) + (masked ? " masked" : "") + (scale != 1 ? " large" : "");
  }
};

void run_chunks(const Logits& s, Run& r) {
  for (std::int64_t first = 0; first < s.classes; first += s.chunk)
    r.call(&Backend::divergence_chunk, [&] {
      DivergenceChunk a;
      a.rows = s.rows, a.columns = std::min(s.chunk, s.classes - first), a.start = first == 0,
      a.temperature = s.temperature;
      a.logits = r.in_at("logits", first), a.ld = s.classes, a.teacher = r.in_at("teacher", first),
      a.ld_teacher = s.classes;
      a.state = r.out("state");
      return a;
    });
}

std::string d_name(std::int64_t first) {
  std::string name("d");
  name += std::to_string(first);
  return name;
}

Case divergence(const Logits& s) {
  Case c(s.name());
  std::vector<std::int64_t> targets;
  for (std::int64_t i = 0; i < s.rows; ++i) targets.push_back(i % 3 == 1 ? -1 : i);
  c.data("logits", s.rows, s.classes, 0, s.scale)
      .data("teacher", s.rows, s.classes, 0, s.scale)
      .integers("targets", targets);
  c.empty("state", s.rows, divergence_state)
      .values("loss", {0.5}, Content::wide)
      .values("scale", {0.125}, Content::f64);
  for (std::int64_t first = 0; first < s.classes; first += s.chunk)
    c.empty(d_name(first), s.rows, std::min(s.chunk, s.classes - first));
  c.forward = [s](Run& r) {
    run_chunks(s, r);
    r.call(&Backend::divergence_loss, [&] {
      DivergenceLoss a;
      a.rows = s.rows, a.temperature = s.temperature, a.targets = s.masked ? r.ints("targets") : nullptr,
      a.state = r.in("state");
      a.weight = 0.75, a.scale = r.doubles("scale"), a.loss = r.out("loss");
      return a;
    });
  };
  c.backward = [s](Run& r) {
    for (std::int64_t first = 0; first < s.classes; first += s.chunk)
      r.call(&Backend::divergence_backward, [&] {
        DivergenceBackward a;
        a.rows = s.rows, a.columns = std::min(s.chunk, s.classes - first), a.temperature = s.temperature;
        a.targets = s.masked ? r.ints("targets") : nullptr;
        a.logits = r.in_at("logits", first), a.ld = s.classes, a.teacher = r.in_at("teacher", first),
        a.ld_teacher = s.classes;
        a.state = r.in("state"), a.weight = 0.75, a.scale = r.doubles("scale"), a.d_logits = r.out(d_name(first));
        return a;
      });
  };
  c.output("loss");
  if (s.chunk >= s.classes) c.gradient("logits", d_name(0));
  return c;
}

}  // namespace

static std::vector<Case> distillation_cases() {
  std::vector<Case> cases;
  for (const Distance kind : {Distance::squared, Distance::cosine}) {
    cases.push_back(distances({kind, 5, 7, {5, 1, 3}}));
    cases.push_back(distances({kind, 3, 33, {3, 2}, true, true}));
    cases.push_back(distances({kind, 1, 384, {1, 1, 1, 1, 1}, false}));
  }
  cases.push_back(divergence({7, 5, 5}));
  cases.push_back(divergence({7, 5, 5, 2, 1, true}));
  cases.push_back(divergence({9, 40, 40, 4, 10}));
  cases.push_back(divergence({33, 200, 64, 1.5, 3, true}));
  cases.push_back(divergence({1, 1, 1}));
  return cases;
}

COMERA_TEST_CASES("distillation", distillation_cases)

}  // namespace comera::kernels::test
