#include "lib/tuning/path_choices.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "kernels/cuda/common/runtime.h"
#include "kernels/tt_linear.h"
#include "lib/core/error.h"
#include "lib/plan/plan.h"

using namespace comera;
using plan::Path;

namespace {

const kernels::Backend& device() { return kernels::cuda::table(); }

kernels::TtLinearForward forward(std::int64_t tokens) {
  kernels::TtLinearForward call;
  call.tokens = tokens, call.in = call.ldx = 24, call.width = 32, call.activation = kernels::Activation::gelu;
  call.x = call.left = call.t1 = plan::unbound;
  call.outputs = 2;
  for (int i = 0; i < 2; ++i) {
    kernels::TtOutput& o = call.output[i];
    o.out = o.ldy = 16, o.rank = 16, o.offset = 16 * i, o.right = o.bias = o.y = plan::unbound;
  }
  return call;
}

kernels::TtLinearBackward backward(std::int64_t tokens) {
  kernels::TtLinearBackward call;
  call.tokens = tokens, call.in = call.ldx = call.lddx = 24, call.width = 16, call.outputs = 1;
  call.x = call.t1 = call.left = plan::unbound, call.d_left = plan::unbound;
  call.u1 = call.dx = plan::unbound;
  kernels::TtOutput& o = call.output[0];
  o.out = o.ldy = 16, o.rank = 16, o.right = o.dy = o.d_right = o.d_bias = plan::unbound;
  return call;
}

// A clock for which one path is always faster. It counts the rounds.
struct Clock {
  Path faster;
  int* rounds;
  double operator()(Path path, const std::function<void()>& round) const {
    round();
    ++*rounds;
    return path == faster ? 1 : 2;
  }
};

}  // namespace

TEST_CASE("the faster path is chosen once for each shape") {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const Path faster : {Path::fused, Path::library}) {
      int rounds = 0;
      tuning::PathChoices choices({}, Clock{faster, &rounds});
      const kernels::Context context{dtype};
      CHECK(choices.choose(device(), context, forward(5)) == faster);
      const int of_one = rounds;
      CHECK(of_one >= 4);  // the clock's rounds are long: one of each path to warm the device, one that counts
      CHECK(choices.choose(device(), context, forward(5)) == faster);
      CHECK(rounds == of_one);
      CHECK(choices.choose(device(), context, forward(6)) == faster);
      CHECK(choices.choose(device(), context, backward(5)) == faster);
      CHECK(rounds == 3 * of_one);
      const std::string type = dtype == DType::f32 ? "f32" : "bf16";
      const plan::PathTable expected{{"tt_linear_forward " + type + " 5 x 24 -> 16/16 16/16 gelu", faster},
                                     {"tt_linear_forward " + type + " 6 x 24 -> 16/16 16/16 gelu", faster},
                                     {"tt_linear_backward " + type + " 5 x 24 -> 16/16", faster}};
      CHECK(choices.table() == expected);
    }
}

TEST_CASE("five rounds of twenty calls are timed on a device that was warm for a tenth of a second") {
  int calls = 0;
  static int* counted = nullptr;
  counted = &calls;
  kernels::Backend counting = device();
  counting.device.launch_graph = [](const kernels::Context& context, void* graph) {
    ++*counted;
    return device().device.launch_graph(context, graph);
  };
  tuning::PathChoices choices({}, [&](Path path, const std::function<void()>& round) {
    round();
    return path == Path::fused ? 0.004 : 0.003;
  });
  CHECK(choices.choose(counting, {}, forward(5)) == Path::library);
  const int warm = 15;  // 15 * (4 + 3) ms
  CHECK(calls == 2 * (warm + 5));
}

TEST_CASE("paths are measured on random numbers") {
  static std::vector<float> first;
  first.clear();
  kernels::Backend watched = device();
  watched.memory.upload = [](const kernels::Context& context, void* to, const void* from, std::size_t bytes) {
    const auto* numbers = static_cast<const float*>(from);
    first.insert(first.end(), numbers, numbers + bytes / sizeof(float));
    return device().memory.upload(context, to, from, bytes);
  };
  int rounds = 0;
  tuning::PathChoices choices({}, Clock{Path::fused, &rounds});
  choices.choose(watched, {}, forward(5));
  REQUIRE(first.size() >= 5 * 24 + 24 * 32);
  double sum = 0, squares = 0;
  for (const float x : first) {
    REQUIRE(std::abs(x) <= 1);
    sum += x, squares += x * x;
  }
  const auto count = static_cast<double>(first.size());
  CHECK(std::abs(sum / count) < 0.1);
  CHECK(squares / count == Approx(1.0 / 3).epsilon(0.1));
}

TEST_CASE("a path that does not support a call loses, and a call that none supports is an error") {
  static Path without = Path::library;
  static bool neither = false;
  neither = false;
  kernels::Backend lacking = device();
  lacking.tt_linear_forward.run = [](const kernels::Context& context, const kernels::TtLinearForward& call) {
    return neither || call.path == without ? kernels::Status::unsupported_shape
                                           : device().tt_linear_forward.run(context, call);
  };
  for (const Path path : {Path::fused, Path::library}) {
    without = path;
    int rounds = 0;
    tuning::PathChoices choices({}, Clock{path, &rounds});
    CHECK(choices.choose(lacking, {}, forward(5)) == (path == Path::fused ? Path::library : Path::fused));
    CHECK(rounds == 0);
  }
  neither = true;
  tuning::PathChoices choices;
  CHECK_THROWS_WITH(choices.choose(lacking, {}, forward(5)), Catch::Contains("neither path supports this call"));
}

TEST_CASE("calls with different computations have separate choices") {
  int rounds = 0;
  tuning::PathChoices choices({}, Clock{Path::fused, &rounds});
  kernels::TtLinearForward again = forward(5);
  again.t1_is_given = true, again.x = again.left = nullptr;
  kernels::TtLinearBackward added = backward(5), without = backward(5), apart = backward(5);
  added.accumulate_dx = true, without.dx = nullptr, apart.x = apart.d_left = nullptr;
  choices.choose(device(), {}, forward(5)), choices.choose(device(), {}, again);
  for (const auto& call : {backward(5), added, without, apart}) choices.choose(device(), {}, call);
  using enum kernels::Activation;
  for (const kernels::Activation activation : {none, gelu, silu, tanh, gelu_tanh, relu}) {
    kernels::TtLinearForward call = forward(6);
    call.activation = activation;
    choices.choose(device(), {}, call);
  }
  CHECK(choices.table().size() == 11);
  std::map<std::string, std::string> texts;
  for (const auto& [call, path] : choices.table()) texts.emplace(call, tuning::name_of(path));
  CHECK(tuning::parse_paths(texts, "recipe.toml") == choices.table());
}

TEST_CASE("a call with an entry in the table is not measured") {
  int rounds = 0;
  tuning::PathChoices choices({{"tt_linear_backward f32 5 x 24 -> 16/16", Path::library}}, Clock{Path::fused, &rounds});
  CHECK(choices.choose(device(), {}, backward(5)) == Path::library);
  CHECK(rounds == 0);
}

TEST_CASE("a call with only one path is not measured") {
  int rounds = 0;
  tuning::PathChoices choices({}, Clock{Path::library, &rounds});
  kernels::TtLinearForward uneven = forward(5);
  uneven.in = 23;
  CHECK(choices.choose(device(), {}, uneven) == Path::automatic);
  kernels::Context tf32;
  tf32.tf32 = true;
  CHECK(choices.choose(device(), tf32, forward(5)) == Path::automatic);
  CHECK(choices.choose(kernels::reference_backend(), {}, forward(5)) == Path::automatic);
  CHECK(choices.table().empty());
}

TEST_CASE("the wall clock chooses a path, and without memory for the measurement the fused path is used") {
  tuning::PathChoices choices;
  const Path chosen = choices.choose(device(), {}, forward(5));
  CHECK((chosen == Path::fused || chosen == Path::library));
  kernels::Backend full = device();
  full.memory.allocate = [](std::size_t) -> void* { return nullptr; };
  int rounds = 0;
  tuning::PathChoices none({}, Clock{Path::library, &rounds});
  CHECK(none.choose(full, {}, forward(5)) == Path::fused);
  CHECK(rounds == 0);
  CHECK(none.table().size() == 1);
}

TEST_CASE("a damaged table is refused") {
  const auto parse = [](const char* call, const char* path) {
    return tuning::parse_paths({{call, path}}, "recipe.toml");
  };
  const char* good = "tt_linear_backward f32 5 x 24 -> 16/16 8/0 gelu, adds dx";
  CHECK(parse(good, "library").at(good) == Path::library);
  for (const char* path : {"", "fast", "automatic"})
    CHECK_THROWS_WITH(parse(good, path), Catch::StartsWith("recipe.toml: ") && Catch::Contains("no choice between"));
  for (const char* call :
       {"", "tt_linear_backward", "tt_linear_backward f64 5 x 24 -> 16/16", "tt_linear_forward f32 5 x 24 -> 16",
        "tt_linear_forward f32 5 x 24 -> 1/1 1/1 1/1 1/1 1/1", "tt_linear_forward f32 5 x 24 -> 16/16 elu"})
    CHECK_THROWS_AS(parse(call, "fused"), InputError);
  CHECK_THROWS_AS(parse(std::string(1 << 20, '1').c_str(), "fused"), InputError);
}
