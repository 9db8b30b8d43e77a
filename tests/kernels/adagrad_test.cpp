#include "kernels/adagrad.h"

#include <catch2/catch.hpp>

#include "tests/kernels/harness/cases.h"
#include "tests/kernels/harness/placed.h"

namespace comera::kernels::test {
namespace {

using Counts = std::vector<std::int64_t>;

std::string numbered(const char* name, std::size_t i) { return std::string(name).append(std::to_string(i)); }

// The part that both ops share: values, gradients, and two groups of rates in turn.
Case updates(std::string name, const Counts& counts, const StepScalars& scalars, double weight_decay) {
  for (auto count : counts) name.append(" ").append(std::to_string(count));
  Case c(name);
  c.bytes("scalars", scalars);
  c.bytes("group0", AdamwScalars{.learning_rate = 1e-3, .weight_decay = weight_decay});
  c.bytes("group1", AdamwScalars{.learning_rate = 3e-2, .weight_decay = weight_decay});
  for (std::size_t i = 0; i < counts.size(); ++i)
    c.data(numbered("value", i), 1, counts[i]).data(numbered("gradient", i), 1, counts[i]);
  return c;
}

template <class Tensor>
std::vector<Tensor>& describe(const Counts& counts, Run& r) {
  auto& tensors = *r.keep(std::vector<Tensor>(counts.size()));
  for (std::size_t i = 0; i < counts.size(); ++i) {
    tensors[i].count = counts[i];
    tensors[i].value = r.out(numbered("value", i)), tensors[i].gradient = r.in(numbered("gradient", i));
    tensors[i].scalars = static_cast<const AdamwScalars*>(r.in(i % 2 ? "group1" : "group0"));
  }
  return tensors;
}

// The first step begins with sums of 0, and a gradient of 0 among others, whose direction is 0 / (0 + eps).
Case adagrad(const std::string& name, const Counts& counts, const StepScalars& scalars, double weight_decay,
             bool first_step) {
  Case c = updates("adagrad " + name, counts, scalars, weight_decay);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    c.data(numbered("sum", i), 1, counts[i]);
    for (double& s : c.tensors.back().start) s = first_step ? 0 : static_cast<float>(s * s * 3);
    if (first_step && counts[i] > 0) c.tensor(numbered("gradient", i)).start[0] = 0;
  }
  c.forward = [=](Run& r) {
    r.call(&Backend::adagrad, [&] {
      auto& tensors = describe<AdagradTensor>(counts, r);
      for (std::size_t i = 0; i < counts.size(); ++i) tensors[i].square_sum = r.out(numbered("sum", i));
      return Adagrad{
          .tensors = tensors.data(), .count = static_cast<int>(counts.size()), .scalars = r.scalars("scalars")};
    });
  };
  return c;
}

Case sgd(const std::string& name, const Counts& counts, const StepScalars& scalars, double weight_decay) {
  Case c = updates("sgd " + name, counts, scalars, weight_decay);
  c.forward = [=](Run& r) {
    r.call(&Backend::sgd, [&] {
      return Sgd{describe<SgdTensor>(counts, r).data(), static_cast<int>(counts.size()), r.scalars("scalars")};
    });
  };
  return c;
}

std::vector<Case> adagrad_cases() {
  StepScalars plain, clipped, diverged;
  clipped.gradient_scale = 0.37, diverged.finite = 0;
  return {adagrad("", {1}, plain, 0, false),
          adagrad("decay", {37, 1000, 5, 64}, plain, 0.1, false),
          adagrad("first step", {37, 1000}, plain, 0.01, true),
          adagrad("clipped", {9, 70000}, clipped, 0.1, false),
          adagrad("not finite", {37, 10}, diverged, 0.1, false),
          adagrad("empty tensor", {0, 10}, plain, 0.1, false),
          sgd("", {1}, plain, 0),
          sgd("decay", {37, 1000, 5, 64}, plain, 0.1),
          sgd("clipped", {9, 70000}, clipped, 0.1),
          sgd("not finite", {37, 10}, diverged, 0.1),
          sgd("empty tensor", {0, 10}, plain, 0.1)};
}

}  // namespace

TEST_CASE("adagrad: every backend within the derived bound of the reference") { check_backends(adagrad_cases()); }
TEST_CASE("adagrad: the same bytes again and for any number of threads") { check_repeat(adagrad_cases()); }

// The first step from sums of 0 is lr times the sign of the gradient. Equal gradients give steps of lr / sqrt(t).
TEST_CASE("adagrad: steps of equal gradients shrink with the root of their number") {
  for (const Column& column : columns()) {
    CAPTURE(column.name);
    const Placed<float> value(column, {1, 1, 1}), gradient(column, {0.5F, -2, 0}), sum(column, {0, 0, 0});
    const Placed<AdamwScalars> group(column, {{.learning_rate = 0.125}});
    const Placed<StepScalars> scalars(column, {{}});
    const AdagradTensor tensor{3, value.data(), gradient.data(), sum.data(), group.data()};
    double wanted = 1;
    for (int step = 1; step <= 4; ++step) {
      REQUIRE(column.backend->adagrad.run(context_of(column),
                                          {.tensors = &tensor, .count = 1, .scalars = scalars.data()}) == Status::ok);
      wanted -= 0.125 / std::sqrt(step);
      CHECK(std::abs(value.read()[0] - wanted) <
            4 * 0x1p-24);  // four subtractions of numbers below 1, two roundings each
      CHECK(std::abs(value.read()[1] - (2 - wanted)) < 8 * 0x1p-24);
      CHECK(value.read()[2] == 1);
    }
    CHECK(sum.read() == std::vector<float>{1, 16, 0});
  }
}

}  // namespace comera::kernels::test
