#include "lib/layers/activations/offloaded.h"

#include <catch2/catch.hpp>
#include <limits>

#include "lib/layers/activations/policy.h"
#include "tests/layers/walks.h"

using namespace comera;
using layers::OffloadLimits;
using layers::Slot;
using layers::Tensor;
using layers::Use;
using layers::Walk;

namespace {

constexpr double always_hidden = std::numeric_limits<double>::infinity();
constexpr std::int64_t elements = 64;  // 512 bytes

struct Seen {
  std::int64_t copies = 0, peak = 0;  // calls of host_copy, planned bytes
};

// `count` values are kept, and read in the reverse order by `readers` each.
void forward_and_backward(Walk& walk, layers::Keeper& keeper, int count, int readers) {
  keeper.begin(nullptr);
  std::vector<std::vector<Slot>> slots(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    Tensor x = walk.make("x", {elements});
    for (std::int64_t j = 0; walk.computes() && j < elements; ++j)
      static_cast<double*>(x.data)[j] = 1000.0 * i + static_cast<double>(j);
    slots[static_cast<std::size_t>(i)].resize(static_cast<std::size_t>(readers));
    for (Slot& slot : slots[static_cast<std::size_t>(i)]) keeper.keep(walk, x, Use::value, slot);
    walk.drop(x);
  }
  walk.backward_begins();
  for (int i = count - 1; i >= 0; --i)
    for (Slot& slot : slots[static_cast<std::size_t>(i)]) {
      Tensor x = slot->value(walk);
      if (walk.computes()) CHECK(static_cast<double*>(x.data)[5] == 1000.0 * i + 5);
      walk.drop(x);
    }
}

// A keeper that has studied such a step whose forward takes `seconds`, at 1 byte per second.
std::unique_ptr<layers::Keeper> studied(int count, double seconds, double host_bytes = always_hidden) {
  auto keeper = layers::make_offload_keeper({.bandwidth = 1, .speed = 1, .host_bytes = host_bytes, .depth = 2});
  CHECK(keeper->studies());
  const plan::Machine machine{&kernels::reference_backend(), DType::f64, nullptr};
  plan::Plan plan;
  Walk walk(machine, plan);
  forward_and_backward(walk, *keeper, count, 1);
  walk.end();
  keeper->studied(seconds);
  CHECK_FALSE(keeper->studies());
  return keeper;
}

Seen planned(layers::Keeper& keeper, int count, int readers = 1) {
  const plan::Machine machine{&kernels::reference_backend(), DType::f64, nullptr};
  plan::Plan plan;
  Walk walk(machine, plan);
  forward_and_backward(walk, keeper, count, readers);
  walk.end();
  Seen seen{.copies = 0, .peak = static_cast<std::int64_t>(plan.bytes)};
  for (const plan::OpCount& op : plan.ops)
    if (op.op == std::string("host_copy")) seen.copies += op.calls;
  return seen;
}

}  // namespace

TEST_CASE("offload: alpha is the largest share that the forward hides and the host holds") {
  // A block of 2 + 2 + 28 bytes at 4 bytes per second.
  const OffloadLimits block{.always = 4, .others = 28, .bandwidth = 4, .seconds = 8, .host_bytes = 1e9, .blocks = 10};
  const auto share = [&](double seconds, double host_bytes) {
    OffloadLimits limits = block;
    limits.seconds = seconds, limits.host_bytes = host_bytes;
    return layers::offload_share(limits);
  };
  CHECK(share(8, 1e9) == 1);
  CHECK(share(100, 1e9) == 1);
  CHECK(share(4.5, 1e9) == 0.5);    // (18 - 4) / 28
  CHECK(share(1, 1e9) == 0);        // 4 bytes: those that always go
  CHECK(share(0.5, 1e9) == 0);      // even they are too many
  CHECK(share(8, 8 * 11) == 0.25);  // (11 - 4) / 28 of 8 blocks
  CHECK(share(4.5, 8 * 11) == 0.25);
  CHECK(share(4.5, 8 * 30) == 0.5);
  OffloadLimits two = block;
  two.host_bytes = 0, two.blocks = 2;
  CHECK(layers::offload_share(two) == 1);  // the last two blocks need no copy
  CHECK(layers::offload_share({.always = 1, .bandwidth = 1, .seconds = 0.5, .host_bytes = 9, .blocks = 3}) == 0);
}

// All values but the last two go out and come back: the device holds three on their way, in either direction.
TEST_CASE("offload: the plan holds the values on their way alone") {
  const std::int64_t bytes = elements * 8;
  const auto keeper = studied(20, always_hidden);
  const Seen all = planned(*keeper, 20), shared = planned(*keeper, 20, 3);
  CHECK(all.copies == 20 + 18);
  CHECK(all.peak <= 4 * bytes);
  CHECK(shared.copies == all.copies);  // readers of one value share its copies
  CHECK(shared.peak == all.peak);
  CHECK(planned(layers::exact_keeper(), 20).peak == 20 * bytes);
}

TEST_CASE("offload: the share of the bytes goes out that the rule gives, the rest stays") {
  const double bytes = elements * 8;
  const auto hidden = studied(20, 10 * bytes);  // 10 of 20 values
  CHECK(planned(*hidden, 20).copies == 10 + 8);
  CHECK(planned(*hidden, 20).peak > 9 * elements * 8);
  const auto small_host = studied(20, always_hidden, 5 * bytes);
  CHECK(planned(*small_host, 20).copies == 5 + 3);
  CHECK(planned(*studied(20, 0), 20).copies == 0);
}

TEST_CASE("offload: values come back as they were, in host memory of a known size") {
  const auto keeper = studied(9, always_hidden);
  CHECK_FALSE(keeper->allocate(kernels::reference_backend()));
  walk_twice(DType::f64, [&](Walk& walk) { forward_and_backward(walk, *keeper, 9, 2); });
  CHECK_FALSE(keeper->allocate(kernels::reference_backend()));  // there is enough
  planned(*keeper, 30);
  CHECK(keeper->allocate(kernels::reference_backend()));  // it moved
}

TEST_CASE("offload: it does not change a result, so a resume may change it") {
  using Words = std::vector<std::string>;
  CHECK(layers::relevant_words({"offload"}).empty());
  CHECK(layers::relevant_words({"cheap", "*.mlp=offload"}).empty());
  CHECK(layers::relevant_words({"share", "offload"}) == Words{"share"});
  CHECK(layers::relevant_words({"int8", "*.mlp=offload"}) != layers::relevant_words({"int8"}));  // other values in int8
}
