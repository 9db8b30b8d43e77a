#include "lib/compress/calibration/collector.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <limits>
#include <map>
#include <span>

#include "lib/compress/calibration/calibration.h"
#include "lib/io/model_folder.h"
#include "tests/compress/small_models.h"
#include "tests/core/temporary_folder.h"

using namespace comera;
using namespace comera::compress;

namespace {

// Two sequences of 3 and 2 tokens, padded to 4.
TextBatch batch_of(TextPart part) {
  TextBatch batch;
  batch.part = part;
  batch.batch.sequences = 2, batch.batch.length = 4;
  const auto lengths = batch.batch.add("lengths", DType::i32, {2}).as<std::int32_t>();
  lengths[0] = 3, lengths[1] = 2;
  return batch;
}

plan::Tensor rows(std::vector<float>& numbers) {
  return {numbers.data(), DType::f32, {std::ssize(numbers) / 2, 2}, -1};
}

// The stream of token k after the layer has the length lengths[k].
std::vector<float> weights_of(Collector::Reads reads, TextPart part, const std::vector<float>& lengths) {
  const TemporaryFolder folder;
  ScratchFile scratch(folder.path());
  BlockOutputs outputs;
  const Group group{{"down"}, 2, true, 0};
  Collector collector(std::span(&group, 1), reads, std::nullopt, outputs, scratch);
  const TextBatch batch = batch_of(part);
  BlockOutput output;
  collector.open(batch, output);
  std::vector<float> x(16, 1), residual(16), given(16);
  for (std::size_t k = 0; k < 8; ++k) residual[2 * k] = 0.5F * lengths[k], given[2 * k] = 0.5F * lengths[k];
  collector.see("down", rows(x));
  CHECK_THROWS_AS(collector.join(rows(residual), rows(given)), SeenEnough);
  CHECK(collector.seen[0].has_residual);
  CHECK(collector.seen[0].x.rows == 5);
  return collector.seen[0].weights;
}

}  // namespace

TEST_CASE("collector: a token whose stream is longer than twice the median counts as if it were twice as long") {
  // The tokens are numbers 0, 1, 2, 4 and 5; the others are padding.
  const std::vector<float> lengths{1, 3, 600, 9e9F, 4, 16, 9e9F, 9e9F};
  const float median = 4;
  CHECK(weights_of(Collector::Reads::weighed_inputs, TextPart::fitted, lengths) ==
        std::vector<float>{1, 1, 2 * median / 600, 1, 2 * median / 16});
  CHECK(weights_of(Collector::Reads::weighed_inputs, TextPart::choosing, lengths).size() == 5);
  CHECK(weights_of(Collector::Reads::weighed_inputs, TextPart::judging, lengths).empty());
  CHECK(weights_of(Collector::Reads::inputs, TextPart::fitted, lengths).empty());
  CHECK(weights_of(Collector::Reads::weighed_inputs, TextPart::fitted, std::vector<float>(8, 0)) ==
        std::vector<float>(5, 1));
  const float none = std::numeric_limits<float>::quiet_NaN(), endless = std::numeric_limits<float>::infinity();
  CHECK(weights_of(Collector::Reads::weighed_inputs, TextPart::fitted, {none, endless, 3, 0, 1, 100, 0, 0}) ==
        std::vector<float>{1, 1, 2 * 1.0F / 3, 1, 2 * 1.0F / 100});
}

// One word has a row of the table that is a thousand times as long as before.
TEST_CASE("calibration: tokens with massive activations do not outweigh the others, except in judging text") {
  const TemporaryFolder folder;
  write_decoder(folder.path(), false);
  write_text(folder / "text.txt");
  {
    const io::ModelFolder model(folder.path());
    std::vector<std::vector<float>> numbers;
    std::vector<io::TensorToWrite> tensors;
    for (const io::ModelFolder::Entry& entry : model.entries()) {
      numbers.push_back(model.read_floats(entry.tensor.name, entry.tensor.shape));
      if (entry.tensor.name == "model.embed_tokens.weight")
        for (float& number : std::span(numbers.back()).subspan(std::size_t{7} * hidden, hidden)) number *= 1000;
      tensors.push_back({entry.tensor.name, io::StoredType::F32, entry.tensor.shape, numbers.back().data()});
    }
    io::write_safetensors(folder / "new.safetensors", tensors, {});
  }
  std::filesystem::rename(folder / "new.safetensors", folder / "model.safetensors");
  struct Sums {
    tt::Matrix fit, products, judged;
  };
  const auto sums_with = [&](bool clips) {
    CalibrationSettings settings{folder.path(), {folder / "text.txt"}, "", 1000, 24};
    settings.clips_tokens = clips;
    const auto moments = calibrate(machine(), settings);
    moments->replace("model.layers.0.self_attn.v_proj", tt::Matrix(hidden, hidden));
    std::map<std::string, Sums> sums;
    moments->visit({}, [&](const MomentGroup& group) {
      Sums& one = sums[group.layers.front()];
      one.fit = group.fit.moment.copy(), one.judged = group.judged.moment.copy();
      if (group.moved()) one.products = group.fit.products.copy();
    });
    return sums;
  };
  std::map<std::string, Sums> all = sums_with(false), clipped = sums_with(true);
  REQUIRE(all.size() == clipped.size());
  for (const auto& [name, sums] : clipped) {
    const bool joins = name.ends_with("o_proj") || name.ends_with("down_proj");
    CHECK((sums.fit.values != all[name].fit.values) == joins);
    CHECK((sums.products.values != all[name].products.values) == (joins && !sums.products.values.empty()));
    CHECK(sums.judged.values == all[name].judged.values);
    CHECK(tt::trace(sums.fit) <= tt::trace(all[name].fit));
  }
  CHECK_FALSE(clipped["model.layers.1.mlp.down_proj"].products.values.empty());
}
