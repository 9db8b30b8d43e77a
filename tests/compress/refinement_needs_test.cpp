// Memory of refinement: planned without any, for blocks of real sizes.
#include "lib/compress/refine/refinement_needs.h"

#include <catch2/catch.hpp>

#include "lib/compress/refine/block_layers.h"
#include "tests/compress/small_models.h"

using namespace comera;
using namespace comera::compress;

namespace {

models::DecoderSpec spec_of_7b() {
  models::DecoderSpec spec;
  spec.hidden = 4096, spec.intermediate = 11008, spec.layers = 2, spec.vocabulary = 32000;
  spec.heads = spec.key_heads = 32, spec.head_size = 128;
  return spec;
}

// The factors of a side of a weight.
tt::Sizes two_modes(std::int64_t size) { return size == 4096 ? tt::Sizes{64, 64} : tt::Sizes{86, 128}; }

// Every linear layer as `chain_of(inputs, outputs)`.
template <class ChainOf>
std::uint64_t planned(const ChainOf& chain_of) {
  const models::DecoderSpec spec = spec_of_7b();
  std::map<std::string, io::ChainSpec> chains;
  for (const std::string& linear : linears_of_block(spec, 0)) {
    const bool down = linear.ends_with("down_proj"), up = linear.ends_with("up_proj") || linear.ends_with("gate_proj");
    io::ChainSpec chain = chain_of(down ? spec.intermediate : spec.hidden, up ? spec.intermediate : spec.hidden);
    chain.initial_ranks = chain.layout.ranks;
    chains.emplace(linear, chain);
  }
  data::Batch text;
  text.sequences = 16, text.length = 128;
  return bytes_of_block(machine(), spec, 0, chains, text);
}

io::ChainSpec pair_of(std::int64_t in, std::int64_t out, std::int64_t rank) {
  io::ChainSpec chain;
  chain.layout = tt::tt_layout({in}, {out}, {1, rank, 1});
  return chain;
}

io::ChainSpec on_grid(std::int64_t in, std::int64_t out, quant::Grid grid, std::int64_t rank = 0) {
  io::ChainSpec chain = pair_of(in, out, rank);
  chain.base = grid;
  return chain;
}

constexpr std::uint64_t mebi = std::uint64_t{1} << 20;
constexpr std::uint64_t block_numbers = std::uint64_t{4096} * (4 * 4096 + 3 * 11008);

}  // namespace

TEST_CASE("refinement needs: a block of 4096 x 11008 leaves room for the program within 4 GiB in every form") {
  // Beside it needs.cpp counts the program and 16,384 rows of the word table.
  const auto most = 4096 * mebi - 96 * mebi - 256 * mebi;
  CHECK(planned([](std::int64_t in, std::int64_t out) { return on_grid(in, out, quant::Grid::q4_1); }) < most);
  CHECK(planned([](std::int64_t in, std::int64_t out) { return pair_of(in, out, in * out / (in + out) * 9 / 10); }) <
        most);
  CHECK(planned([](std::int64_t in, std::int64_t out) { return on_grid(in, out, quant::Grid::q2_0, 512); }) < most);
  CHECK(planned([](std::int64_t in, std::int64_t out) {
          io::ChainSpec chain;
          chain.layout = tt::tt_layout(two_modes(in), two_modes(out), {1, 64, 1024, 64, 1});
          return chain;
        }) < most);
}

TEST_CASE(
    "refinement needs: of numbers on a grid codes and moments are in memory, weights and gradients of one layer") {
  const std::uint64_t bytes =
      planned([](std::int64_t in, std::int64_t out) { return on_grid(in, out, quant::Grid::q4_0); });
  const std::uint64_t tokens = 2048 * sizeof(float), layer = 4096 * 11008 * sizeof(float);
  CHECK(bytes > 12 * block_numbers + 2 * layer);
  CHECK(bytes < 13 * block_numbers + 2 * layer + tokens * (24 * 4096 + 6 * 11008));
}
