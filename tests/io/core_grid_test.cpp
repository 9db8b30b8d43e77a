// Chains whose cores are numbers on a grid.
#include <catch2/catch.hpp>
#include <cstring>
#include <limits>

#include "lib/core/half.h"
#include "tests/core/temporary_folder.h"
#include "tests/io/refused_block.h"

using namespace comera;
using namespace comera::io;
using Catch::Contains;

namespace {

Json config_of(const ComeraBlock& block) { return {{"comera", to_json(block)}}; }

}  // namespace

TEST_CASE("tt format: cores on a grid are one line of blocks in C order") {
  const TemporaryFolder folder;
  ChainSpec chain{"up", {3, 20}, tt::tt_layout({20}, {3}, {1, 2, 1}), {1, 2, 1}, true};
  chain.cores = quant::Grid::q8_0;
  chain.dense_type = StoredType::F16;
  // 40 numbers: a block of 32 with scale 1/2 and one of 8 with scale 2; then 6 numbers with scale 1.
  std::vector<std::uint8_t> left(68), right(34);
  const auto set_scale = [](std::uint8_t* block, float scale) {
    const std::uint16_t half = float_to_half(scale);
    std::memcpy(block, &half, sizeof half);
  };
  set_scale(left.data(), 0.5F), set_scale(&left[34], 2), set_scale(right.data(), 1);
  for (std::size_t i = 0; i < 40; ++i) left[2 + i + (i < 32 ? 0 : 2)] = static_cast<std::uint8_t>(i);
  for (std::size_t i = 0; i < 6; ++i) right[2 + i] = static_cast<std::uint8_t>(256 - i);
  const auto write = [&](const ComeraBlock& block) {
    write_safetensors(folder / "model.safetensors",
                      {{"up.tt.0", StoredType::U8, {std::ssize(left)}, left.data()},
                       {"up.tt.1", StoredType::U8, {std::ssize(right)}, right.data()}},
                      weights_metadata());
    write_file_atomic(folder / "config.json", config_of(block).dump());
  };
  ComeraBlock block;
  block.chains = {chain};
  write(block);
  const auto parsed = parse_comera_block(config_of(block), "config.json");
  REQUIRE(parsed);
  const ModelFolder model(folder.path());
  const tt::FloatChain read = read_chain(model, parsed->chains[0], {});
  for (int i = 0; i < 40; ++i)
    CHECK(read.cores[0][static_cast<std::size_t>(i)] == static_cast<float>(i) * (i < 32 ? 0.5F : 2));
  for (int i = 0; i < 6; ++i) CHECK(read.cores[1][static_cast<std::size_t>(i)] == static_cast<float>(-i));
  const std::vector<TensorForm> forms = describe(model);
  REQUIRE(forms.size() == 1);
  CHECK(forms[0].form == "lowrank:q8_0");
  CHECK((forms[0].parameters == 46 && forms[0].bytes == 102 && forms[0].bytes_dense == 120));

  // Each of these is refused by name.
  Json config = config_of(block);
  Json& up = config["comera"]["tensors"]["up"];
  up["cores"] = "q9_9";
  CHECK_THAT(message_for(config), Contains("\"cores\" is \"q9_9\""));
  up["cores"] = "q8_0", up["diagonals"] = "beside";
  CHECK_THAT(message_for(config), Contains("\"cores\" needs folded diagonals"));
  up["diagonals"] = "folded", up["gauge"] = true;
  CHECK_THAT(message_for(config), Contains("without \"between\" and \"gauge\""));
  up.erase("gauge"), up.erase("dense_type");
  CHECK_THAT(message_for(config), Contains("dense_type"));
  set_scale(right.data(), std::numeric_limits<float>::infinity());
  write(block);
  CHECK_THAT(message([&] { read_chain(ModelFolder(folder.path()), chain, {}); }),
             Contains("up.tt.1") && Contains("not finite"));
  right.resize(33);
  write(block);
  CHECK_THAT(message([&] { describe(ModelFolder(folder.path())); }), Contains("up.tt.1") && Contains("[34]"));
}
