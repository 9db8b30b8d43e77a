#include "lib/layers/training/sink.h"

#include <catch2/catch.hpp>

#include "lib/plan/slab.h"

using namespace comera;
using layers::Parameter;
using layers::Tensor;
using layers::Walk;

namespace {

Parameter& add(layers::Parameters& parameters, const char* name, Shape shape, bool from_factors) {
  Parameter parameter;
  parameter.name = name;
  parameter.shape = shape;
  parameter.from_factors = from_factors;
  return *parameters.add(std::move(parameter));
}

void add_one(Walk& walk, layers::Sink& sink, Parameter& parameter) {
  Tensor gradient = sink.open(walk, parameter);
  for (std::int64_t i = 0; walk.computes() && i < gradient.elements(); ++i) static_cast<double*>(gradient.data)[i] += 1;
  sink.close(walk, parameter, gradient);
  CHECK(gradient.empty());
}

}  // namespace

TEST_CASE("the plain sink sums all contributions of a step, and begin() sets them to zero") {
  const plan::Machine machine{&kernels::reference_backend(), DType::f64, nullptr};
  layers::Parameters parameters(DType::f64);
  Parameter& table = add(parameters, "table", {3, 2}, false);
  Parameter& core = add(parameters, "core", {1, 2, 2}, true);
  plan::Slab step_gradients;
  const auto sink = layers::make_accumulate_sink(parameters, step_gradients);
  plan::Arena memory(kernels::reference_backend(), step_gradients.bytes(), "test");
  step_gradients.bind(memory.data());
  const auto step = [&](Walk& walk) {
    sink->begin(walk);
    for (int contribution = 0; contribution < 3; ++contribution) add_one(walk, *sink, table);
    for (int contribution = 0; contribution < 2; ++contribution) add_one(walk, *sink, core);
    for (Parameter* parameter : {&table, &core}) sink->complete(walk, *parameter);
    if (walk.computes()) {
      CHECK(static_cast<const double*>(sink->gradient(table).data)[5] == 3);
      CHECK(static_cast<const double*>(sink->gradient(core).data)[3] == 2);
      CHECK(sink->gradient(core).shape == core.shape);
    }
    sink->release(walk);
    CHECK(sink->gradient(core).empty());
    walk.end();
  };
  plan::Plan recorded;
  Walk record(machine, recorded);
  step(record);
  plan::Arena arena(kernels::reference_backend(), recorded.bytes, "test");
  for (int again = 0; again < 2; ++again) {
    Walk replay(machine, recorded, arena.data());
    step(replay);
  }
}
