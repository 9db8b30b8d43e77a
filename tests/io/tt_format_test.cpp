#include "lib/io/tt_format.h"

#include <catch2/catch.hpp>
#include <limits>

#include "lib/core/error.h"
#include "lib/io/chain_parts.h"
#include "tests/core/cpu_seconds.h"
#include "tests/core/temporary_folder.h"
#include "tests/io/refused_block.h"

using namespace comera;
using namespace comera::io;
using Catch::Matchers::Contains;

namespace {

ChainSpec linear() {
  return {"encoder.query", {6, 4}, tt::tt_layout({2, 2}, {3, 2}, {1, 2, 3, 2, 1}), {1, 2, 4, 2, 1}};
}
ChainSpec table() {
  return {"embeddings.word_embeddings", {7, 6}, tt::ttm_layout({4, 2}, {3, 2}, {1, 3, 1}), {1, 3, 1}, true};
}

ComeraBlock good_block() { return {{linear(), table()}, 0.01, R"({"norm":"post"})", {{"document-end", "false"}}}; }

Json config_of(const ComeraBlock& block) { return {{"model_type", "bert"}, {"comera", to_json(block)}}; }

// Entries as in a file's header, sorted.
std::vector<ModelFolder::Entry> entries_of(const ComeraBlock& block) {
  std::vector<ModelFolder::Entry> entries;
  const auto add = [&](const std::string& name, const FileShape& shape) {
    entries.push_back({{name, StoredType::F32, shape, 0, static_cast<std::uint64_t>(elements_of(shape)) * 4}, 0});
  };
  for (const ChainSpec& chain : block.chains) {
    const tt::Layout& layout = chain.layout;
    if (layout.exact_rows > 0) {
      add(chain.exact_rows_name(), {layout.exact_rows, chain.shape[1]});
      entries.push_back({{chain.exact_ids_name(),
                          StoredType::I32,
                          {layout.exact_rows},
                          0,
                          static_cast<std::uint64_t>(layout.exact_rows) * 4},
                         0});
    }
    if (layout.empty()) continue;
    for (std::size_t k = 0; k < layout.cores(); ++k) add(chain.core_name(k), layout.core_shape(k));
    for (std::size_t k = 0; k + 1 < layout.cores() && !chain.folded; ++k)
      add(chain.diagonal_name(k), {layout.ranks[k + 1]});
    const auto add_indices = [&](const std::string& name, std::int64_t count) {
      entries.push_back({{name, StoredType::I32, {count}, 0, static_cast<std::uint64_t>(count) * 4}, 0});
    };
    if (layout.sorted) add_indices(chain.order_name(), chain.rows());
    if (layout.gauge) add_indices(chain.gauge_name(), layout.ranks[layout.middle()]);
  }
  add("encoder.query.bias", {6});
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return natural_less(a.tensor.name, b.tensor.name); });
  return entries;
}

// Three in modes and one out mode, sorted, with an identity block in the last core.
ChainSpec gauged() {
  ChainSpec chain{"encoder.output", {5, 12}, tt::tt_layout({3, 2, 2}, {5}, {1, 2, 4, 3, 1}), {1, 2, 4, 3, 1}, true};
  chain.layout.sorted = chain.layout.gauge = true;
  return chain;
}

}  // namespace

TEST_CASE("tt format: a block of 100,000 chains is written and read in less than a second each") {
  ComeraBlock block;
  for (int i = 0; i < 100'000; ++i) {
    block.chains.push_back(linear());
    block.chains.back().name = fmt::format("model.layers.{}.mlp.up_proj", i);
  }
  const double start = cpu_seconds();
  const Json config = config_of(block);
  const double written = cpu_seconds();
  CHECK(written - start < second());
  const std::optional<ComeraBlock> read = parse_comera_block(config, "config.json");
  CHECK(cpu_seconds() - written < second());
  REQUIRE(read);
  REQUIRE(read->chains.size() == block.chains.size());
  for (std::size_t i = 0; i < block.chains.size(); i += 9'999) CHECK(read->chains[i].name == block.chains[i].name);
}

TEST_CASE("tt format: the block reads back as written") {
  const auto block = parse_comera_block(parse_json(json_text(config_of(good_block())), "config.json"), "config.json");
  REQUIRE(block);
  CHECK(to_json(*block) == to_json(good_block()));
  CHECK(block->threshold == 0.01);
  CHECK(block->model == R"({"norm":"post"})");
  CHECK(block->reading == Reading{{"document-end", "false"}});
  CHECK(block->chains[1].folded);
  CHECK_FALSE(parse_comera_block(Json{{"model_type", "bert"}}, "config.json"));
}

TEST_CASE("tt format: every weight is described from the header") {
  const auto forms = describe(entries_of(good_block()), good_block(), "model");
  REQUIRE(forms.size() == 3);
  const TensorForm& words = forms[0];
  CHECK(words.name == "embeddings.word_embeddings.weight");
  CHECK(words.form == "ttm");
  CHECK(words.kind == "embedding");
  CHECK(words.parameters == 1 * 4 * 3 * 3 + 3 * 2 * 2 * 1);
  CHECK(words.rank_entries == 0);
  const TensorForm& query = forms[2];
  CHECK(query.name == "encoder.query.weight");
  CHECK(query.form == "tt");
  CHECK(query.parameters == 2 * 2 + 2 * 2 * 3 + 3 * 3 * 2 + 2 * 2);
  CHECK(query.rank_entries == 2 + 3 + 2);
  CHECK(query.bytes == 4 * (38 + 7));
  CHECK(query.parameters_dense == 24);
  CHECK(query.bytes_dense == 96);
  CHECK(query.initial_ranks == FileShape{1, 2, 4, 2, 1});
  CHECK(forms[1].kind == "bias");
}

TEST_CASE("tt format: a low-rank pair is a chain of two cores, and an empty chain has no tensors") {
  ComeraBlock block{{{"up", {6, 4}, tt::tt_layout({4}, {6}, {1, 2, 1}), {1, 2, 1}},
                     {"down", {4, 6}, tt::tt_layout({6}, {4}, {1, 0, 1}), {1, 2, 1}}},
                    {},
                    {}};
  for (const TensorForm& form : describe(entries_of(block), block, "model")) {
    if (form.name == "up.weight") CHECK((form.form == "lowrank" && form.parameters == 20 && form.rank_entries == 2));
    if (form.name == "down.weight") CHECK((form.parameters == 0 && form.bytes == 0 && form.parameters_dense == 24));
  }
  CHECK(parse_comera_block(config_of(block), "config.json"));
}

TEST_CASE("tt format: weights of 3 bits need version 2") {
  const auto on_grid = [](quant::Grid grid) {
    ComeraBlock block = good_block();
    block.chains[1].base = grid;
    return config_of(block);
  };
  CHECK(on_grid(quant::Grid::q4_0g64)["comera"]["version"] == 1);
  Json config = on_grid(quant::Grid::q3_0g64);
  CHECK(config["comera"]["version"] == 2);
  CHECK(parse_comera_block(config, "config.json"));
  config["comera"]["version"] = 1;
  CHECK_THAT(message_for(config), Contains("3 bits") && Contains("compress the dense model again"));
}

TEST_CASE("tt format: errors for an inconsistent block name the place") {
  // `place` is "/key", or keys of objects in objects.
  const auto broken = [](std::string_view place, const Json& value) {
    Json config = config_of(good_block());
    Json* at = &config["comera"];
    while (!place.empty()) {
      const std::size_t end = std::min(place.find('/', 1), place.size());
      at = &(*at)[place.substr(1, end - 1)];
      place.remove_prefix(end);
    }
    *at = value;
    return message_for(config);
  };
  const auto in_query = [&](const char* key, const Json& value) {
    return broken("/tensors/encoder.query/" + std::string(key), value);
  };
  CHECK_THAT(broken("/version", 3), Contains("config.json: comera") && Contains("newer comera"));
  CHECK_THAT(broken("/version", "1"), Contains("version"));
  CHECK_THAT(broken("/tensor", 1), Contains("unknown key \"tensor\"") && Contains("did you mean tensors?"));
  CHECK_THAT(broken("/tensors", 1), Contains("not an object"));
  CHECK_THAT(broken("/threshold", "x"), Contains("threshold"));
  CHECK_THAT(broken("/model", 1), Contains("model"));
  CHECK_THAT(broken("/reading", 1), Contains("comera.reading: is not an object"));
  CHECK_THAT(broken("/reading/document-end", true), Contains("comera.reading: document-end is no string"));
  CHECK_THAT(in_query("kind", "cp"), Contains("comera.tensors.encoder.query") && Contains("kind"));
  CHECK_THAT(in_query("rank", 3), Contains("unknown key \"rank\"") && Contains("ranks"));
  CHECK_THAT(in_query("orientation", "out_in"), Contains("orientation"));
  CHECK_THAT(in_query("diagonals", "gone"), Contains("diagonals"));
  CHECK_THAT(in_query("in_modes", {2, 3}), Contains("multiply to 6 and 6") && Contains("4 inputs"));
  CHECK_THAT(broken("/tensors/embeddings.word_embeddings/row_modes", {8}), Contains("equally many"));
  CHECK_THAT(broken("/tensors/embeddings.word_embeddings/sorted", true), Contains("unknown key \"sorted\""));
  CHECK_THAT(in_query("in_modes", {4}), Contains("must be 4 numbers"));
  CHECK_THAT(in_query("sorted", 1), Contains("neither true nor false"));
  CHECK_THAT(in_query("gauge", true), Contains("needs one out mode and folded diagonals"));
  CHECK_THAT(in_query("conv1d", true), Contains("multiply to 4 and 6, not to the 6 inputs and 4 outputs"));
  CHECK_THAT(in_query("in_modes", {2, 0}), Contains("in_modes"));
  CHECK_THAT(in_query("in_modes", {2, 2.5}), Contains("in_modes"));
  CHECK_THAT(in_query("in_modes", Json::array()), Contains("in_modes"));
  CHECK_THAT(in_query("shape", {6, 4, 1}), Contains("matrix"));
  CHECK_THAT(in_query("shape", {1099511627776, 1099511627776}), Contains("2^40"));
  CHECK_THAT(in_query("ranks", {1, 2, 3, 1}), Contains("must be 5 numbers"));
  CHECK_THAT(in_query("ranks", {2, 2, 3, 2, 1}), Contains("the first and the last of them 1"));
  CHECK_THAT(in_query("ranks", {1, 2, 0, 2, 1}), Contains("one inner rank is 0"));
  CHECK_THAT(in_query("ranks", {1, 2, 5, 2, 1}), Contains("rank 5 at bond 2 is above the initial rank 4"));
  CHECK_THAT(in_query("ranks", {1, 2, std::numeric_limits<std::uint64_t>::max(), 2, 1}), Contains("ranks"));
  Json config = config_of(good_block());
  config["comera"]["tensors"]["encoder.query"].erase("shape");
  CHECK_THAT(message_for(config), Contains("\"shape\" is missing"));
}

TEST_CASE("tt format: cores that do not fit, are missing or unknown are refused") {
  const auto changed = [](auto change) {
    auto entries = entries_of(good_block());
    change(entries);
    return message([&] { describe(entries, good_block(), "model"); });
  };
  const auto at = [](auto& entries, const std::string& name) {
    return std::find_if(entries.begin(), entries.end(), [&](const auto& entry) { return entry.tensor.name == name; });
  };
  CHECK(changed([](auto&) {}) == "accepted");
  CHECK_THAT(changed([&](auto& e) { at(e, "encoder.query.tt.1")->tensor.shape[2] = 4; }),
             Contains("encoder.query.tt.1") && Contains("needs [2, 2, 3]"));
  CHECK_THAT(changed([&](auto& e) { e.erase(at(e, "encoder.query.tt.3")); }),
             Contains("encoder.query.tt.3 is missing"));
  CHECK_THAT(changed([&](auto& e) { e.erase(at(e, "encoder.query.rank.0")); }),
             Contains("encoder.query.rank.0 is missing"));
  CHECK_THAT(changed([&](auto& e) { at(e, "encoder.query.tt.1")->tensor.type = StoredType::I32; }),
             Contains("no floating-point type"));
  CHECK_THAT(changed([&](auto& e) {
               e.push_back({{"encoder.query.tt.4", StoredType::F32, {1}, 0, 4}, 0});
             }),
             Contains("does not describe"));
  CHECK_THAT(changed([&](auto& e) {
               e.push_back({{"encoder.query.weight", StoredType::F32, {6, 4}, 0, 96}, 0});
             }),
             Contains("one of them must go"));
}

TEST_CASE("tt format: a folder round trip, and a diagonal entry that is not finite") {
  const TemporaryFolder folder;
  const ComeraBlock block = good_block();
  std::vector<float> values(200, 0.5f);
  const auto write = [&] {
    std::vector<TensorToWrite> tensors;
    for (const ModelFolder::Entry& entry : entries_of(block))
      tensors.push_back({entry.tensor.name, StoredType::F32, entry.tensor.shape, values.data()});
    write_safetensors(folder / "model.safetensors", tensors, weights_metadata());
  };
  write_file_atomic(folder / "config.json", json_text(config_of(block)));
  write();
  const ModelFolder model(folder.path());
  CHECK(model.metadata().at("comera_format") == "1");
  CHECK(describe(model).size() == 3);
  CHECK_NOTHROW(check_diagonals(model, block));
  values[1] = std::numeric_limits<float>::quiet_NaN();
  write();
  CHECK_THAT(message([&] { check_diagonals(ModelFolder(folder.path()), block); }),
             Contains("encoder.query.rank.0") && Contains("not finite"));
}

TEST_CASE("tt format: transposition of all shapes around the tile size") {
  for (const std::int64_t rows : {1, 31, 33, 64})
    for (const std::int64_t columns : {1, 32, 65}) {
      std::vector<float> in(static_cast<std::size_t>(rows * columns)), out(in.size());
      for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
      transpose(in.data(), rows, columns, out.data());
      bool same = true;
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < columns; ++j)
          same &= out[static_cast<std::size_t>(j * rows + i)] == in[static_cast<std::size_t>(i * columns + j)];
      CHECK(same);
    }
}

TEST_CASE("tt format: unequal modes, an order and a gauge") {
  const ChainSpec chain = gauged();
  CHECK(chain.layout.core_shape(2) == FileShape{4, 2, 3});
  CHECK(chain.layout.core_shape(3) == FileShape{3, 2, 1});
  const ComeraBlock block{{chain}, {}, {}};
  const auto again = parse_comera_block(parse_json(json_text(config_of(block)), "config.json"), "config.json");
  REQUIRE(again);
  CHECK(to_json(*again) == to_json(block));
  CHECK(again->chains[0].layout.middle() == 3);
  CHECK((again->chains[0].layout.sorted && again->chains[0].layout.gauge && !again->chains[0].conv1d));
  for (const TensorForm& form : describe(entries_of(block), block, "model"))
    if (form.name == "encoder.output.weight") {
      CHECK((form.form == "tt" && form.layout == chain.layout));
      CHECK(form.parameters == 1 * 3 * 2 + 2 * 2 * 4 + 4 * 2 * 3 + 3 * 2);
      CHECK(form.bytes == 4 * static_cast<std::uint64_t>(form.parameters + 12 + 3));
    }
  const auto refused = [](auto change) {
    ChainSpec broken = gauged();
    change(broken);
    return message([&] { check_chain(broken, "here"); });
  };
  CHECK_THAT(refused([](ChainSpec& c) { c.layout.ranks[3] = c.initial_ranks[3] = 6; }),
             Contains("rank 6 is above the 5 outputs"));
  CHECK_THAT(refused([](ChainSpec& c) { c.layout.in_count = 2, c.shape = {10, 6}; }), Contains("one out mode"));
  auto entries = entries_of(block);
  for (auto& entry : entries)
    if (entry.tensor.name == chain.order_name()) entry.tensor.type = StoredType::F32;
  CHECK_THAT(message([&] { describe(entries, block, "model"); }), Contains("encoder.output.order") && Contains("I32"));
}

TEST_CASE("tt format: a chain is read with its order and gauge, and errors name the problem") {
  const TemporaryFolder folder;
  const ChainSpec chain = gauged();
  std::vector<float> values(200);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  std::vector<std::int32_t> order{3, 1, 2, 0, 4, 5, 6, 7, 8, 9, 11, 10}, gauge{4, 0, 2};
  const auto read = [&] {
    std::vector<TensorToWrite> tensors;
    for (const ModelFolder::Entry& entry : entries_of({{chain}, {}, {}})) {
      const bool indices = entry.tensor.type == StoredType::I32;
      const void* data = !indices                                  ? static_cast<const void*>(values.data())
                         : entry.tensor.name == chain.order_name() ? order.data()
                                                                   : gauge.data();
      tensors.push_back({entry.tensor.name, entry.tensor.type, entry.tensor.shape, data});
    }
    write_safetensors(folder / "model.safetensors", tensors, weights_metadata());
    return read_chain(ModelFolder(folder.path()), chain, {});
  };
  const tt::FloatChain tensors = read();
  CHECK(tensors.order == order);
  CHECK(tensors.gauge == gauge);
  REQUIRE(tensors.cores.size() == 4);
  // The stored columns of [3, 5] are 1 and 3; e_0 is in column 4, e_1 in column 0, e_2 in column 2.
  CHECK(tt::with_gauge(tt::FloatMatrix(3, 2, tensors.cores[3]), tensors.gauge).values ==
        std::vector<float>{0, 0, 0, 1, 1, 1, 2, 0, 3, 0, 0, 4, 1, 5, 0});
  order[0] = 1;
  CHECK_THAT(message(read),
             Contains("encoder.output.order") && Contains("1 is not one of 12 different numbers below 12"));
  order[0] = 3, gauge[1] = 5;
  CHECK_THAT(message(read),
             Contains("encoder.output.gauge") && Contains("5 is not one of 3 different numbers below 5"));
  gauge[1] = 0, values[2] = std::numeric_limits<float>::infinity();
  CHECK_THAT(message(read), Contains("encoder.output.tt.0") && Contains("element 2 is inf"));
}

TEST_CASE("tt format: exact rows beside a chain are described, read and checked") {
  const TemporaryFolder folder;
  ChainSpec chain = table();
  chain.layout.exact_rows = 2;
  const ComeraBlock block{{chain}, {}, {}};
  const auto again = parse_comera_block(parse_json(json_text(config_of(block)), "config.json"), "config.json");
  REQUIRE(again);
  CHECK(again->chains[0].layout.exact_rows == 2);
  const TensorForm form = describe(entries_of(block), block, "model")[0];
  CHECK((form.layout.exact_rows == 2 && form.parameters == 36 + 12 + 12 && form.bytes == 4 * (60 + 2)));
  CHECK_THAT(message([&] {
               describe(entries_of(block), {{table()}, {}, {}}, "model");
             }),
             Contains("exact.") && Contains("does not describe"));
  Json config = config_of(block);
  for (const Json& wrong : {Json(0), Json(8), Json(1.5), Json("2")}) {
    config["comera"]["tensors"][chain.name]["exact"] = wrong;
    CHECK_THAT(message_for(config), Contains("exact"));
  }
  config = config_of(good_block());
  config["comera"]["tensors"]["encoder.query"]["exact"] = 2;
  CHECK_THAT(message_for(config), Contains("unknown key \"exact\""));

  std::vector<float> values(60);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  std::vector<std::int32_t> ids{1, 5};
  const auto read = [&] {
    std::vector<TensorToWrite> tensors;
    for (const ModelFolder::Entry& entry : entries_of(block))
      tensors.push_back({entry.tensor.name, entry.tensor.type, entry.tensor.shape,
                         entry.tensor.type == StoredType::I32 ? static_cast<const void*>(ids.data()) : values.data()});
    write_safetensors(folder / "model.safetensors", tensors, weights_metadata());
    return read_chain(ModelFolder(folder.path()), chain, {});
  };
  CHECK(read().exact_ids == ids);
  CHECK(read().exact_rows == std::vector<float>(values.begin(), values.begin() + 12));
  ids = {5, 1};
  CHECK_THAT(message(read), Contains("embeddings.word_embeddings.exact.ids") && Contains("do not rise"));
  ids = {1, 7};
  CHECK_THAT(message(read), Contains("7 is not one of 2 different numbers below 7"));
  ids = {1, 5}, values[3] = std::numeric_limits<float>::infinity();
  CHECK_THAT(message(read), Contains("exact.rows") && Contains("element 3 is inf"));
}

TEST_CASE("tt format: exact rows of a table on a grid replace the numbers of the grid and of the correction") {
  const TemporaryFolder folder;
  const std::int64_t rank = GENERATE(0, 2), line = quant::line_bytes(quant::Grid::q8_0, 6);
  ChainSpec chain{"words", {7, 6}, tt::ttm_layout({7, 1}, {1, 6}, {1, rank, 1}), {1, 2, 1}, true};
  chain.base = quant::Grid::q8_0;
  chain.layout.exact_rows = 2;
  const ComeraBlock block{{chain}, {}, {}};
  const auto again = parse_comera_block(parse_json(json_text(config_of(block)), "config.json"), "config.json");
  REQUIRE(again);
  CHECK((again->chains[0].layout == chain.layout && again->chains[0].base == chain.base));

  std::vector<std::byte> lines(static_cast<std::size_t>(7 * line));
  for (std::int64_t l = 0; l < 7; ++l) {
    lines[static_cast<std::size_t>(l * line + 1)] = std::byte{0x3c};  // a scale of 1
    for (std::int64_t i = 0; i < 6; ++i) lines[static_cast<std::size_t>(l * line + 2 + i)] = std::byte{5};
  }
  std::vector<std::int32_t> ids{1, 5};
  std::vector<float> rows(12, 2.5F), ones(14, 1);
  const auto read = [&] {
    std::vector<TensorToWrite> tensors{{"words.base", StoredType::U8, {7, line}, lines.data()},
                                       {"words.exact.ids", StoredType::I32, {2}, ids.data()},
                                       {"words.exact.rows", StoredType::F16, {2, 6}, rows.data(), true}};
    for (std::size_t k = 0; k < 2 && rank > 0; ++k)
      tensors.push_back({chain.core_name(k), StoredType::F16, chain.layout.core_shape(k), ones.data(), true});
    write_safetensors(folder / "model.safetensors", tensors, weights_metadata());
    write_file_atomic(folder / "config.json", json_text(config_of(block)));
    return read_matrix(ModelFolder(folder.path()), chain, {});
  };
  const tt::FloatMatrix table = read();
  for (std::int64_t r = 0; r < 7; ++r)
    CHECK(table(r, 3) == (r == 1 || r == 5 ? 2.5F : 5.0F + static_cast<float>(rank)));
  const TensorForm form = describe(ModelFolder(folder.path()))[0];
  CHECK((form.layout.exact_rows == 2 && form.parameters == 42 + 12 + 13 * rank));
  CHECK(form.bytes == static_cast<std::uint64_t>(7 * line + 2 * 4 + 2 * (12 + 13 * rank)));
  CHECK(form.form == (rank > 0 ? "q8_0+lowrank" : "q8_0"));
  ids = {5, 1};
  CHECK_THAT(message(read), Contains("words.exact.ids") && Contains("do not rise"));
  ids = {1, 7};
  CHECK_THAT(message(read), Contains("7 is not one of 2 different numbers below 7"));
  ids = {1, 5}, rows[3] = std::numeric_limits<float>::infinity();
  CHECK_THAT(message(read), Contains("words.exact.rows") && Contains("element 3 is inf"));
}

TEST_CASE("tt format: diagonals are multiplied into the cores, with entries below the threshold as zero") {
  const TemporaryFolder folder;
  const ChainSpec chain{"up", {2, 2}, tt::tt_layout({2}, {2}, {1, 2, 1}), {1, 2, 1}};
  const float left[] = {1, 2, 3, 4}, right[] = {5, 6, 7, 8}, diagonal[] = {0.5f, 0.001f};
  write_safetensors(folder / "model.safetensors",
                    {{"up.tt.0", StoredType::F32, {1, 2, 2}, left},
                     {"up.tt.1", StoredType::F32, {2, 2, 1}, right},
                     {"up.rank.0", StoredType::F32, {2}, diagonal}},
                    weights_metadata());
  const tt::FloatChain tensors = read_chain(ModelFolder(folder.path()), chain, 0.01);
  CHECK(tensors.cores[0] == std::vector<float>{0.5f, 0, 1.5f, 0});
  CHECK(tensors.cores[1] == std::vector<float>{5, 6, 7, 8});
}

TEST_CASE("tt format: an entry of a diagonal counts above the threshold; negative ones and those equal to it do not") {
  const TemporaryFolder folder;
  const ChainSpec chain{"up", {2, 4}, tt::tt_layout({4}, {2}, {1, 4, 1}), {1, 4, 1}};
  const std::vector<float> left(16, 1), right(8, 1), diagonal{0.5f, -0.5f, 0.125f, 0.25f};
  write_safetensors(folder / "model.safetensors",
                    {{"up.tt.0", StoredType::F32, {1, 4, 4}, left.data()},
                     {"up.tt.1", StoredType::F32, {4, 2, 1}, right.data()},
                     {"up.rank.0", StoredType::F32, {4}, diagonal.data()}},
                    weights_metadata());
  const auto first_row = [&](std::optional<double> threshold) {
    const std::vector<float> core = read_chain(ModelFolder(folder.path()), chain, threshold).cores[0];
    return std::vector<float>(core.begin(), core.begin() + 4);
  };
  CHECK(first_row(0.125) == std::vector<float>{0.5f, 0, 0, 0.25f});
  CHECK(first_row(0) == std::vector<float>{0.5f, 0, 0.125f, 0.25f});
  CHECK(first_row(std::nullopt) == diagonal);
}

TEST_CASE("tt format: a file has the parts of its chains and nothing that looks like more of them") {
  const ComeraBlock block = good_block();
  std::vector<std::string> parts;
  for (const ChainSpec& chain : block.chains)
    for (const ChainPart& part : parts_of(chain)) parts.push_back(part.name);
  CHECK(parts.size() == 4 + 3 + 2);
  const auto with = [&](const ComeraBlock& described, std::initializer_list<const char*> names) {
    std::vector<ModelFolder::Entry> entries = entries_of(block);
    for (const char* name : names) entries.push_back({{name, StoredType::F32, {3}, 0, 12}, 0});
    std::sort(entries.begin(), entries.end(),
              [](const auto& a, const auto& b) { return natural_less(a.tensor.name, b.tensor.name); });
    return message([&] { describe(entries, described, "model"); });
  };
  // Names below a chain's name that are no part of it: normal dense tensors.
  CHECK(with(block, {"encoder.query.tt.norm.weight", "encoder.query.rank.weight", "other.order", "gauge"}) ==
        "accepted");
  for (const char* name :
       {"encoder.query.tt.9", "encoder.query.rank.3", "encoder.query.order", "encoder.query.exact.rows", "other.tt.0"})
    CHECK_THAT(with(block, {name}), Contains(name) && Contains("does not describe"));
  // Diagonals beside a folded chain.
  ComeraBlock folded = block;
  folded.chains[0].folded = true;
  CHECK_THAT(with(folded, {}), Contains("encoder.query.rank.0") && Contains("does not describe"));
  // Two chains for one weight.
  ComeraBlock twice = block;
  twice.chains.push_back(linear());
  twice.chains.back().name = "encoder.query.weight";
  twice.chains.back().bare = true;
  CHECK_THAT(with(twice, {}), Contains("two chains"));
}

TEST_CASE("tt format: oversized cores and invalid thresholds are refused") {
  ComeraBlock block = good_block();
  Json config = config_of(block);
  Json& query = config["comera"]["tensors"]["encoder.query"];
  constexpr std::int64_t large = std::int64_t{1} << 40;
  query["initial_ranks"] = {1, large, large, large, 1};
  CHECK_THAT(message_for(config), Contains("encoder.query") && Contains("larger than 2^40 elements"));
  query["ranks"] = query["initial_ranks"];
  CHECK_THAT(message_for(config), Contains("larger than 2^40 elements"));
  config = config_of(block);
  for (const double wrong : {-0.5, 1e308}) {
    config["comera"]["threshold"] = wrong;
    CHECK_THAT(message_for(config), Contains("is no number from 0 to 1"));
  }
}
