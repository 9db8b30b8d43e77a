#include "lib/plan/plan.h"

#include <catch2/catch.hpp>
#include <random>

#include "kernels/elementwise.h"
#include "kernels/late_sums.h"
#include "kernels/norm.h"
#include "lib/plan/slab.h"
#include "lib/plan/walk.h"

using namespace comera;
using plan::Category;

namespace {

plan::PlannedTensor tensor(std::size_t bytes, int first, int last) {
  plan::PlannedTensor row;
  row.bytes = bytes;
  row.first = first;
  row.last = last;
  return row;
}

bool overlap(const plan::PlannedTensor& a, const plan::PlannedTensor& b) {
  const bool in_time = a.first <= b.last && b.first <= a.last;
  return in_time && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

}  // namespace

TEST_CASE("tensors with overlapping lifetimes never share memory") {
  std::mt19937 random(7);
  plan::Plan table;
  table.ticks = 100;
  for (int i = 0; i < 200; ++i) {
    const int first = static_cast<int>(random() % 100);
    table.tensors.push_back(tensor(1 + random() % 100000, first, first + static_cast<int>(random() % (100 - first))));
  }
  table.lay_out();
  std::size_t separate = 0;
  for (std::size_t i = 0; i < table.tensors.size(); ++i) {
    separate += plan::aligned(table.tensors[i].bytes);
    CHECK(table.tensors[i].offset % plan::alignment == 0);
    for (std::size_t j = 0; j < i; ++j) CHECK_FALSE(overlap(table.tensors[i], table.tensors[j]));
  }
  CHECK(table.bytes < separate);
  table.lay_out(false);
  CHECK(table.bytes == separate);
}

TEST_CASE("tensors that follow each other share memory") {
  plan::Plan table;
  table.ticks = 4;
  table.tensors = {tensor(1000, 0, 1), tensor(1000, 2, 3)};
  table.lay_out();
  CHECK(table.bytes == plan::aligned(1000));
  CHECK(table.tensors[0].offset == table.tensors[1].offset);
}

TEST_CASE("a replay places every tensor as recorded, and an error names a tensor that is never dropped") {
  const plan::Machine machine{&kernels::reference_backend(), DType::f32, nullptr};
  plan::Plan recorded;
  const auto steps = [&](plan::Walk& walk) {
    plan::Walk::Scope scope(walk, "block");
    plan::Tensor a = walk.make("a", {4, 4});
    plan::Tensor b = walk.make("b", {2}, DType::i32);
    walk.drop(a);
    plan::Tensor c = walk.make("c", {8});
    walk.drop(b);
    walk.drop(c);
    walk.end();
  };
  plan::Walk record(machine, recorded);
  steps(record);
  REQUIRE(recorded.tensors.size() == 3);
  CHECK(recorded.tensors[0].name == "block.a");
  plan::Arena arena(kernels::reference_backend(), recorded.bytes, "test");
  plan::Walk replay(machine, recorded, arena.data());
  steps(replay);

  plan::Walk leaking(machine, recorded);
  leaking.make("lost", {1});
  CHECK_THROWS_WITH(leaking.end(), Catch::Contains("lost is never dropped"));
}

// A backend whose norm leaves sums, and what it was given: the parts of an earlier call and memory for its own.
TEST_CASE("the parts of a call's sums live until a later call, or the end, has added them") {
  static std::vector<std::pair<const void*, const void*>> calls;
  static std::vector<const void*> added;
  calls.clear(), added.clear();
  kernels::Backend gpu = kernels::reference_backend();
  gpu.norm_backward.late = [](const kernels::Context&, const kernels::NormBackward& a, void* parts) {
    kernels::LateSums sums;
    sums.count = 1, sums.bytes = static_cast<std::size_t>(a.tokens) * 1000, sums.sum[0].parts = parts;
    return sums;
  };
  gpu.norm_backward.run = [](const kernels::Context& context, const kernels::NormBackward&) {
    calls.emplace_back(context.earlier && context.earlier->count > 0 ? context.earlier->sum[0].parts : nullptr,
                       context.late_parts);
    return kernels::Status::ok;
  };
  gpu.late_sums.run = [](const kernels::Context&, const kernels::LateSums& sums) {
    added.push_back(sums.sum[0].parts);
    return kernels::Status::ok;
  };
  const plan::Machine machine{&gpu, DType::f32, nullptr};
  const auto steps = [&](plan::Walk& walk) {
    for (const std::int64_t tokens : {1, 0, 1, 1}) {
      kernels::NormBackward call;
      call.tokens = tokens;
      walk.run(gpu.norm_backward, call);
    }
    walk.add_late_sums();
    walk.run(gpu.norm_backward, [] {
      kernels::NormBackward call;
      call.tokens = 1;
      return call;
    }());
    walk.end();
  };
  plan::Plan recorded;
  plan::Walk record(machine, recorded);
  steps(record);
  CHECK(recorded.tensors.size() == 4);
  CHECK(recorded.bytes == 2 * plan::aligned(1000));
  plan::Arena arena(kernels::reference_backend(), recorded.bytes, "test");
  plan::Walk replay(machine, recorded, arena.data());
  steps(replay);
  REQUIRE(calls.size() == 5);
  CHECK(calls[0].first == nullptr);
  CHECK(calls[1] == std::pair<const void*, const void*>{nullptr, nullptr});  // it leaves none and adds none
  CHECK(calls[2].first == calls[0].second);
  CHECK(calls[3].first == calls[2].second);
  CHECK(calls[4].first == nullptr);
  CHECK(added == std::vector<const void*>{calls[3].second, calls[4].second});
}

TEST_CASE("the error of a failed call contains the device's message") {
  kernels::Backend gpu = kernels::reference_backend();
  gpu.name = "gpu";
  gpu.add_scaled.run = [](const kernels::Context&, const kernels::AddScaled&) { return kernels::Status::failed; };
  gpu.device.failure = [] { return "an illegal memory access was encountered"; };
  const plan::Machine machine{&gpu, DType::f32, nullptr};
  const plan::Plan recorded;
  plan::Walk walk(machine, recorded, nullptr);
  CHECK_THROWS_WITH(walk.run(gpu.add_scaled, kernels::AddScaled{}),
                    "[gpu] op add_scaled failed: an illegal memory access was encountered");
}

TEST_CASE("the error for an op that a backend lacks names both") {
  kernels::Backend gpu;
  gpu.name = "gpu";
  const plan::Machine machine{&gpu, DType::f32, nullptr};
  plan::Plan recorded;
  plan::Walk walk(machine, recorded);
  CHECK_THROWS_WITH(walk.run(gpu.add_scaled, kernels::AddScaled{}),
                    Catch::Contains("the gpu backend has no op add_scaled"));
}

TEST_CASE("a slab places its tensors side by side and counts them by kind") {
  plan::Slab slab;
  const int first = slab.add("w", Category::weights, DType::f32, {3});
  const int second = slab.add("m", Category::optimizer, DType::f64, {5});
  CHECK(slab.bytes() == 2 * plan::alignment);
  CHECK(slab.bytes_by_category()[static_cast<int>(Category::optimizer)] == plan::alignment);
  CHECK(slab[second].data == plan::unbound);
  char memory[2 * plan::alignment];
  slab.bind(memory);
  CHECK(slab[first].data == memory);
  CHECK(slab[second].data == memory + plan::alignment);
}
