#include "lib/io/gguf/gguf_rope.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numbers>

#include "lib/core/error.h"
#include "tests/core/temporary_folder.h"
#include "tests/io/gguf_bytes.h"

using namespace comera;
using Catch::Matchers::Contains;
using io::GgufBytes;

namespace {

GgufBytes with_theta(float theta) {
  GgufBytes file;
  file.text_key("general.architecture", "llama").real_key("llama.rope.freq_base", theta);
  return file;
}

io::Json scaling_of(const GgufBytes& bytes, std::int64_t head_size) {
  const TemporaryFolder folder;
  write_file_atomic(folder / "m.gguf", bytes.file());
  return io::gguf_rope_scaling(io::GgufFile(folder / "m.gguf"), head_size);
}

struct Llama3 {
  float theta, factor;
  double low, high, context;
  std::int64_t head_size;
};

// As llama.cpp's converter computes them, in float32.
std::vector<float> divisors_of(const Llama3& rope) {
  std::vector<float> divisors;
  const auto low = static_cast<float>(rope.low), high = static_cast<float>(rope.high),
             context = static_cast<float>(rope.context), factor = rope.factor;
  for (std::int64_t i = 0; i < rope.head_size / 2; ++i) {
    const float frequency = 1 / std::pow(rope.theta, static_cast<float>(2 * i) / static_cast<float>(rope.head_size));
    const float wavelength = 2 * std::numbers::pi_v<float> / frequency,
                kept = (context / wavelength - low) / (high - low);
    divisors.push_back(wavelength < context / high  ? 1
                       : wavelength > context / low ? factor
                                                    : 1 / ((1 - kept) / factor + kept));
  }
  return divisors;
}

GgufBytes file_of(const Llama3& rope, const std::vector<float>& divisors) {
  return with_theta(rope.theta).floats(io::rope_divisors_name, {std::ssize(divisors)}, divisors);
}

constexpr Llama3 llama31{500000, 8, 1, 4, 8192, 128}, llama32{500000, 32, 1, 4, 8192, 64};

}  // namespace

TEST_CASE("gguf rope: keys, and their older name") {
  CHECK(scaling_of(with_theta(1e4f), 8).empty());
  CHECK(scaling_of(with_theta(1e4f).real_key("llama.rope.scale_linear", 1), 8).empty());
  CHECK(scaling_of(with_theta(1e4f).real_key("llama.rope.scaling.factor", 0), 8).empty());
  const io::Json linear{{"rope_type", "linear"}, {"factor", 4.0}};
  for (const char* key : {"llama.rope.scale_linear", "llama.rope.scaling.factor"}) {
    CHECK(scaling_of(with_theta(1e4f).real_key(key, 4), 8) == linear);
    CHECK(scaling_of(with_theta(1e4f).text_key("llama.rope.scaling.type", "linear").real_key(key, 4), 8) == linear);
    CHECK(scaling_of(with_theta(1e4f).text_key("llama.rope.scaling.type", "none").real_key(key, 4), 8).empty());
  }
  const io::Json yarn = scaling_of(with_theta(1e4f)
                                       .text_key("llama.rope.scaling.type", "yarn")
                                       .real_key("llama.rope.scaling.factor", 4)
                                       .number_key("llama.rope.scaling.original_context_length", 32),
                                   8);
  CHECK((yarn["rope_type"] == "yarn" && yarn["original_max_position_embeddings"] == 32));
}

TEST_CASE("gguf rope: divisors of frequencies are positions of kind llama3") {
  for (const Llama3& rope : {llama31,
                             llama32,
                             Llama3{500000, 16, 1, 4, 4096, 128},
                             {10000, 8, 1, 4, 64, 32},
                             {10000, 8, 1, 4, 32, 16},
                             {1e6f, 4, 1, 8, 32768, 96},
                             {500000, 2.5f, 1, 32, 2048, 64}}) {
    const io::Json found = scaling_of(file_of(rope, divisors_of(rope)), rope.head_size);
    INFO(found.dump());
    CHECK(found == io::Json{{"rope_type", "llama3"},
                            {"factor", static_cast<double>(rope.factor)},
                            {"low_freq_factor", rope.low},
                            {"high_freq_factor", rope.high},
                            {"original_max_position_embeddings", static_cast<std::int64_t>(rope.context)}});
  }
  // Only context / low and context / high can be known.
  const Llama3 half{500000, 8, .5, 2, 8192, 128};
  const io::Json found = scaling_of(file_of(half, divisors_of(half)), 128);
  CHECK((found["low_freq_factor"] == 1.0 && found["original_max_position_embeddings"] == 16384));
  const Llama3 odd{500000, 8, 1.7, 3.3, 8192, 128};
  CHECK(scaling_of(file_of(odd, divisors_of(odd)), 128)["low_freq_factor"].get<double>() == Approx(1.7).epsilon(1e-4));
  // Few pairs: one or none on the ramp, or none that is divided by the whole factor. The frequencies count.
  for (const Llama3& rope : {Llama3{500000, 8, 1, 4, 8192, 12},
                             {500000, 8, 1, 1.01, 8192, 16},
                             {10000, 8, 1, 4, 8192, 8},
                             {500000, 8, 3, 5, 8192, 24}}) {
    const std::vector<float> divisors = divisors_of(rope);
    const io::Json made = scaling_of(file_of(rope, divisors), rope.head_size);
    INFO(made.dump());
    const std::vector<float> again =
        divisors_of({rope.theta, made["factor"].get<float>(), made["low_freq_factor"].get<double>(),
                     made["high_freq_factor"].get<double>(), made["original_max_position_embeddings"].get<double>(),
                     rope.head_size});
    for (std::size_t i = 0; i < divisors.size(); ++i) CHECK(again[i] == Approx(divisors[i]).epsilon(1e-4));
  }
  CHECK(scaling_of(file_of(llama31, std::vector<float>(64, 1)), 128).empty());
}

TEST_CASE("gguf rope: divisors that are damaged or of another kind are refused") {
  const auto refused = [](const std::vector<float>& divisors, const std::string& why) {
    CHECK_THROWS_WITH(scaling_of(file_of(llama31, divisors), 128),
                      Contains("m.gguf") && Contains(io::rope_divisors_name) && Contains(why));
  };
  const auto changed = [](std::size_t at, float by) {
    std::vector<float> divisors = divisors_of(llama31);
    divisors[at] *= by;
    return divisors;
  };
  for (const std::size_t at : std::vector<std::size_t>{0, 28, 31, 33, 34, 50, 63})
    refused(changed(at, 1.001f), "are no positions of kind llama3");
  refused(changed(50, .5f), "number 50 is 4, and the others ask for 8");
  refused(changed(3, .5f), "number 3 is 0.5");
  refused(changed(3, std::numeric_limits<float>::quiet_NaN()), "number 3 is nan");
  refused(std::vector<float>(64, 2), "are no positions of kind llama3");
  for (const float least : {1 + 0x1p-23f, 1 + 0x1p-22f, 1 + 0x1p-20f}) {  // in float32 hardly more than 1
    std::vector<float> divisors(64, 1);
    divisors[3] = least * least * least;
    refused(divisors, "are no positions of kind llama3");
  }
  refused(std::vector<float>(63, 1), "has 63 numbers in 1 dimensions, and heads of 128 need 64");
  CHECK_THROWS_WITH(scaling_of(file_of(llama31, divisors_of(llama31)).real_key("llama.rope.scale_linear", 2), 128),
                    Contains("scaled by keys (linear, factor 2) and by tensor"));
}
