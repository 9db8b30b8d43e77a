// Whole decoders: gradients by the complex step, bitwise equality under every recompute policy, packed documents
// against single ones, parameter counts.
#include "models/decoder/decoder.h"

#include <catch2/catch.hpp>

#include "tests/models/small_models.h"

using namespace comera;
using models::DecoderSpec;
using models::Form;

namespace {

struct Variant {
  const char* name;
  Form form;
  bool tied;
  std::int64_t exact = 0;
  bool near = false;  // with norms of heads, and a window in the first layer
  bool gpt2 = false;
};

const Variant variants[] = {
    {"dense, tied", Form::dense, true},
    {"TT with TTM tables, untied", Form::tt, false},
    {"TT with a TTM table, tied", Form::tt, true},
    {"TT with a TTM table and exact rows, tied", Form::tt, true, 9},
    {"low rank, untied", Form::lowrank, false},
    {"dense, norms of heads and a window", Form::dense, false, 0, true},
    {"TT, norms of heads and a window", Form::tt, true, 0, true},
    {"GPT-2, dense, tied", Form::dense, true, 0, false, true},
    {"GPT-2, TT, untied", Form::tt, false, 0, false, true},
};

DecoderSpec spec_of(const Variant& variant) {
  if (variant.gpt2) return small_gpt2(variant.form, variant.tied);
  DecoderSpec spec = small_decoder(variant.form, variant.tied, variant.exact);
  if (!variant.near) return spec;
  spec.head_norms = true;
  spec.window = 3;
  spec.windowed = {true, false};
  return spec;
}

}  // namespace

TEST_CASE("decoder: every gradient equals that of the complex step") {
  for (const Variant& variant : variants) {
    DYNAMIC_SECTION(variant.name) { CHECK(check_complex_step(spec_of(variant)) < 1e-10); }
  }
}

TEST_CASE("decoder: gradients are bitwise equal under every recompute policy") {
  for (const Variant& variant : variants) {
    DYNAMIC_SECTION(variant.name) { check_recompute_bits(spec_of(variant)); }
  }
}

TEST_CASE("decoder: gradients of the CPU backend are within single precision of the reference in double") {
  for_every_instruction_set([](const char* isa, const kernels::Backend& cpu) {
    for (const Variant& variant : variants) {
      DYNAMIC_SECTION(isa << ", " << variant.name) { check_single_precision(spec_of(variant), cpu); }
    }
  });
}

// The loss of two packed documents is the sum of their single losses, up to the rounding of the sums.
TEST_CASE("decoder: a packed document gives the same result as the document alone") {
  DecoderSpec spec = small_decoder(Form::tt, true);
  spec.attention_dropout = 0;
  const auto loss_of = [&](std::int32_t first, std::int32_t count, bool packed) {
    ReferenceRun<double> run(spec);
    data::Batch batch;
    batch.sequences = 1;
    batch.length = count;
    auto ids = batch.add("input_ids", DType::i32, {1, count}).as<std::int32_t>();
    auto targets = batch.add("targets", DType::i32, {1, count}).as<std::int32_t>();
    auto begins = batch.add("key_begin", DType::i32, {1, count}).as<std::int32_t>();
    auto positions = batch.add("position_ids", DType::i32, {1, count}).as<std::int32_t>();
    batch.add("lengths", DType::i32, {1}).as<std::int32_t>()[0] = count;
    batch.add("samples", DType::i64, {1}).as<std::int64_t>()[0] = 7;
    for (std::int32_t t = 0; t < count; ++t) {
      ids[t] = (first + t) * 5 % 23;
      begins[t] = packed && t >= 3 ? 3 : 0;
      positions[t] = t - begins[t];
      targets[t] = t + 1 == count || (packed && t == 2) ? -1 : (first + t + 1) * 5 % 23;
    }
    run.batch = std::move(batch);
    run.state.scalars.loss_scale = 1;
    return run.loss();
  };
  const double together = loss_of(0, 8, true), apart = loss_of(0, 3, false) + loss_of(3, 5, false);
  CHECK(together == Approx(apart).epsilon(1e-12));
  CHECK(std::abs(loss_of(0, 8, false) - together) > 1e-3);
}

TEST_CASE("decoder: presets have the published number of parameters") {
  const auto dense = [](const char* name) {
    return models::make_model(models::find_preset(name).spec, DType::f32)->parameters().count();
  };
  // 2 V H (untied) + L (4 H^2 + 3 H I + 2 H) + H
  CHECK(dense("llama-60m") == 2 * 32000 * 512 + 8 * (4 * 512 * 512 + 3 * 512 * 1376 + 2 * 512) + 512);
  CHECK(dense("llama-60m") == 58073600);
  CHECK(dense("llama-130m") == 134105856);
  CHECK(dense("llama-350m") == 367969280);
  CHECK(dense("llama-1b") == 1339082752);
  CHECK(dense("llama-6m") == 4096 * 256 + 6 * (4 * 256 * 256 + 3 * 256 * 688 + 2 * 256) + 256);
}
