#include "kernels/optimizer.h"

#include <catch2/catch.hpp>
#include <limits>

#include "tests/kernels/harness/cases.h"

namespace comera::kernels::test {
namespace {

using Counts = std::vector<std::int64_t>;

std::string numbered(const char* name, std::size_t i) { return std::string(name).append(std::to_string(i)); }

std::string text_of(const Counts& counts) {
  std::string text;
  for (auto count : counts) text.append(" ").append(std::to_string(count));
  return text;
}

const AdamwTensor* describe(const Counts& counts, Run& r) {
  auto& tensors = *r.keep(std::vector<AdamwTensor>(counts.size()));
  for (std::size_t i = 0; i < counts.size(); ++i) {
    AdamwTensor& t = tensors[i];
    t.count = counts[i], t.value = r.out(numbered("value", i)), t.gradient = r.in(numbered("gradient", i));
    t.moment1 = r.out(numbered("moment1.", i)), t.moment2 = r.out(numbered("moment2.", i));
    t.scalars = static_cast<const AdamwScalars*>(r.in(i % 2 ? "group1" : "group0"));
    t.rate_scale = i % 2 ? 0.75F : 1.0F;
  }
  return tensors.data();
}

Case adamw(const std::string& name, const Counts& counts, const StepScalars& scalars, double weight_decay,
           bool first_step) {
  Case c("adamw " + name + text_of(counts));
  AdamwScalars group;
  group.learning_rate = 1e-3, group.weight_decay = weight_decay;
  group.correction1 = first_step ? 1 - group.beta1 : 0.7, group.correction2 = first_step ? 1 - group.beta2 : 0.02;
  c.bytes("group0", group).bytes("scalars", scalars);
  group.learning_rate = 3e-2, group.beta1 = 0.8;
  c.bytes("group1", group);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    c.data(numbered("value", i), 1, counts[i])
        .data(numbered("gradient", i), 1, counts[i])
        .data(numbered("moment1.", i), 1, counts[i], 0, 0.1);
    c.data(numbered("moment2.", i), 1, counts[i]);
    for (double& v : c.tensors.back().start) v = first_step ? 0 : static_cast<float>(v * v * 1e-2);
    if (!first_step) continue;
    for (double& m : c.tensor(numbered("moment1.", i)).start) m = 0;
    if (counts[i] > 0) c.tensor(numbered("gradient", i)).start[0] = 0;
  }
  c.forward = [=](Run& r) {
    r.call(&Backend::adamw, [&] {
      return Adamw{describe(counts, r), static_cast<int>(counts.size()), r.scalars("scalars")};
    });
  };
  return c;
}

Case decay(const Counts& counts, const StepScalars& scalars) {
  Case c("decay" + text_of(counts) + (scalars.finite == 0 ? " not finite" : ""));
  c.bytes("group0", AdamwScalars{.learning_rate = 0.5, .weight_decay = 0.3}).bytes("scalars", scalars);
  for (std::size_t i = 0; i < counts.size(); ++i) c.data(numbered("value", i), 1, counts[i]);
  c.forward = [=](Run& r) {
    r.call(&Backend::decay, [&] {
      auto& tensors = *r.keep(std::vector<DecayTensor>(counts.size()));
      for (std::size_t i = 0; i < counts.size(); ++i)
        tensors[i] = {counts[i], r.out(numbered("value", i)), static_cast<const AdamwScalars*>(r.in("group0"))};
      return Decay{tensors.data(), static_cast<int>(counts.size()), r.scalars("scalars")};
    });
  };
  return c;
}

Case square_sum(const Counts& counts) {
  Case c("square_sum" + text_of(counts));
  std::int64_t total = 1;
  for (std::size_t i = 0; i < counts.size(); ++i) c.data(numbered("x", i), 1, counts[i]), total += counts[i];
  c.values("result", {std::numeric_limits<double>::quiet_NaN()}, Content::f64);
  c.tensor("result").f64_roundings = static_cast<double>(total);  // of a sum of squares: no cancellation
  c.forward = [=](Run& r) {
    r.call(&Backend::square_sum, [&] {
      auto& tensors = *r.keep(std::vector<ConstTensor>(counts.size()));
      for (std::size_t i = 0; i < counts.size(); ++i) tensors[i] = {counts[i], r.in(numbered("x", i))};
      return SquareSum{tensors.data(), static_cast<int>(counts.size()), static_cast<double*>(r.out("result"))};
    });
  };
  return c;
}

Case clip(const std::string& name, double max_norm, double square_sum, double loss, double applied = 0) {
  Case c("clip " + name);
  c.values("square_sum", {square_sum}, Content::f64)
      .values("loss", {loss}, Content::f64)
      .values("applied", {applied}, Content::f64);
  static_assert(sizeof(StepScalars) == 6 * sizeof(double));
  // seed, step, loss_scale, sequence_scale, gradient_scale, finite
  c.values("scalars", {0, 0, 0.5, 1, 123, 456}, Content::f64);
  c.tensor("scalars").f64_roundings = 4;  // a root and a quotient, each within one rounding
  c.forward = [=](Run& r) {
    r.call(&Backend::clip_gradient, [&] {
      return ClipGradient{max_norm, r.doubles("square_sum"), r.doubles("loss"), r.doubles("applied"),
                          static_cast<StepScalars*>(r.out("scalars"))};
    });
  };
  return c;
}

}  // namespace

static std::vector<Case> optimizer_cases() {
  constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  StepScalars plain, clipped, diverged;
  clipped.gradient_scale = 0.37, diverged.finite = 0;
  std::vector<Case> cases;
  cases.push_back(adamw("", {1}, plain, 0, false));
  cases.push_back(adamw("decay", {37, 1000, 5, 64}, plain, 0.1, false));
  cases.push_back(adamw("first step", {37, 1000}, plain, 0.01, true));
  cases.push_back(adamw("clipped", {9, 70000}, clipped, 0.1, false));
  cases.push_back(adamw("not finite", {37, 10}, diverged, 0.1, false));
  cases.push_back(adamw("empty tensor", {0, 10}, plain, 0.1, false));
  cases.push_back(decay({37, 0, 70000}, plain));
  cases.push_back(decay({10}, diverged));
  cases.push_back(square_sum({1}));
  cases.push_back(square_sum({37, 0, 1000, 5}));
  cases.push_back(square_sum({100000, 3}));
  cases.push_back(clip("off", 0, 9, 1));
  cases.push_back(clip("below", 4, 9, 1));
  cases.push_back(clip("above", 2, 9, 1));
  cases.push_back(clip("infinite gradient", 2, infinity, 1));
  cases.push_back(clip("nan gradient", 2, nan, 1));
  cases.push_back(clip("nan loss", 2, 9, nan));
  cases.push_back(clip("applied infinite gradient", 2, 9, 1, infinity));
  return cases;
}

TEST_CASE("optimizer: every backend within the derived bound of the reference") { check_backends(optimizer_cases()); }
TEST_CASE("optimizer: the same bytes again and for any number of threads") { check_repeat(optimizer_cases()); }

}  // namespace comera::kernels::test
