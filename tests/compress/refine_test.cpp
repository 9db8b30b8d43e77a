// Refinement of blocks: held-out errors fall, nothing else changes, and certificates hold.
#include <catch2/catch.hpp>

#include "kernels/host/thread_pool.h"
#include "lib/compress/calibration/calibration.h"
#include "lib/compress/check/verify.h"
#include "lib/compress/refine/block_layers.h"
#include "lib/compress/refine/block_trainer.h"
#include "lib/compress/tensorize.h"
#include "lib/core/error.h"
#include "lib/core/hash.h"
#include "models/lone_block.h"
#include "tests/compress/small_models.h"
#include "tests/core/temporary_folder.h"

using namespace comera;
using namespace comera::compress;

namespace {

struct Model {
  TemporaryFolder folder;
  kernels::ThreadPool pool{1};

  Model() {
    write_model(folder.path());
    write_text(folder / "text.txt");
  }
  CalibrationSettings text() const { return {folder.path(), {folder / "text.txt"}, "", 1400, 24}; }
  Settings settings(const std::string& output, const Refinement& refinement) const {
    Settings settings;
    settings.model = folder.path();
    settings.output = folder / output;
    settings.goal.ratios = {1.7};
    settings.choice.exclude = {"*embeddings*"};
    settings.refinement = refinement;
    return settings;
  }
  std::vector<Result> run(const Settings& settings) {
    return Tensorizer(settings, pool, calibrate(machine(), text())).run();
  }
  Verification verified(const std::string& output) {
    const auto moments = calibrate(machine(), text());
    return verify(folder / output, folder.path(), moments.get(), pool);
  }
  std::string weights(const std::string& output) const {
    return read_file(folder / (output + "/model.safetensors"), 1 << 24);
  }
};

// All linear layers of a block stay dense, or lie on grids.
models::ModelSpec block_spec(const models::ModelSpec& model, std::int64_t block, bool dense) {
  models::ModelSpec spec = model;
  models::common(spec).forms.clear();
  for (const std::string& linear : linears_of_block(model, block))
    if (dense) models::common(spec).forms[linear] = form_in_block(nullptr);
  return spec;
}

void set_to_dense(BlockTrainer& trainer, const BlockFlows& flows) {
  for (const layers::Parameter& parameter : trainer.model().parameters().all())
    flows.read(parameter, BlockTrainer::numbers(parameter));
  trainer.changed();
}

// The dense numbers times .9, weights on grids rounded to 4 bits.
void set_to_disturbed(BlockTrainer& trainer, const BlockFlows& flows) {
  for (const layers::Parameter& parameter : trainer.model().parameters().all()) {
    std::vector<float> numbers(static_cast<std::size_t>(parameter.shape.elements()));
    flows.read(parameter, numbers);
    for (float& number : numbers) number *= 0.9f;
    if (!BlockUpdateRule::is_on_grid(parameter)) {
      std::ranges::copy(numbers, BlockTrainer::numbers(parameter).begin());
      continue;
    }
    const tt::FloatMatrix weight(parameter.shape[0], parameter.shape[1], numbers);
    trainer.set_on_grid(parameter, quant::round_linear(tt::to_double(weight), quant::Grid::q4_0), numbers);
  }
  trainer.changed();
}

}  // namespace

TEST_CASE("refinement: the dense block turns its dense inputs into its targets") {
  Model model;
  const auto moments = calibrate(machine(), model.text());
  BlockFlows& flows = *moments->flows();
  for (const std::size_t block : {2, 0, 1}) {
    flows.open(block, 0);
    BlockTrainer trainer(flows, block_spec(flows.spec(), static_cast<std::int64_t>(block), true), block);
    CHECK(trainer.error(TextPart::choosing) > 0.5);  // all weights are zero
    set_to_dense(trainer, flows);
    // Both sides run the same kernels on the same numbers.
    CHECK(trainer.error(TextPart::choosing) == 0);
    CHECK(trainer.error(TextPart::judging) == 0);
  }
}

TEST_CASE("refinement: training lowers the error of a disturbed block on text that it has not seen") {
  Model model;
  const auto moments = calibrate(machine(), model.text());
  BlockFlows& flows = *moments->flows();
  flows.open(1, 0);
  BlockTrainer trainer(flows, block_spec(flows.spec(), 1, false), 1);
  set_to_disturbed(trainer, flows);
  const double before = trainer.error(TextPart::judging);
  trainer.train({.when = Refinement::When::always, .steps = 50, .rate = 1e-2});
  CHECK(before > 0.05);
  CHECK(trainer.error(TextPart::judging) < 0.5 * before);
}

TEST_CASE("refinement: held-out errors of blocks fall, and the certificate holds") {
  Model model;
  const Result refined =
      model.run(model.settings("refined", {.when = Refinement::When::always, .steps = 60, .rate = 1e-2})).at(0);
  const Result still =
      model.run(model.settings("still", {.when = Refinement::When::always, .steps = 1, .rate = 0})).at(0);
  REQUIRE(refined.blocks.size() == blocks);
  REQUIRE(still.blocks.size() == blocks);
  for (const BlockOutcome& block : refined.blocks) {
    CHECK(block.kept);
    CHECK(block.after < block.before);
    CHECK(block.judged_after < block.judged_before);
  }
  // The last block has the errors of all blocks before it.
  CHECK(still.blocks.back().judged_after == still.blocks.back().judged_before);
  CHECK(refined.blocks.back().judged_after < 0.95 * still.blocks.back().judged_after);
  const Verification verification = model.verified("refined");
  CHECK(verification.holds());
  CHECK(verification.layers.size() > 10);
  for (const LayerCheck& layer : verification.layers) CHECK(layer.output_error);
  CHECK(refined.file_bytes <= refined.file_bytes_dense / 1.7);
}

TEST_CASE("refinement: where it pays, blocks of 4 bits and too much work are left as fitted") {
  Model model;
  const auto count = [&](const std::string& output, int bits, std::int64_t steps) {
    Settings settings = model.settings(output, {.when = Refinement::When::where_it_pays, .steps = steps, .rate = 1e-2});
    settings.goal = Goal{};
    settings.goal.rank = bits == 0 ? 8 : 0;
    if (bits > 0) settings.grids = {bits == 3 ? quant::Grid::q3_0 : quant::Grid::q4_0};
    return model.run(settings).at(0).blocks.size();
  };
  CHECK(count("rank", 0, 2) == blocks);
  CHECK(count("three", 3, 2) == blocks);
  CHECK(count("four", 4, 2) == 0);
  CHECK(count("long", 3, std::int64_t{1} << 40) == 0);
}

TEST_CASE("refinement: a block that training does not improve stays as fitted, byte for byte") {
  Model model;
  const auto run = [&](const std::string& output, const Refinement& refinement) {
    Settings settings = model.settings(output, refinement);
    settings.goal = Goal{};
    settings.goal.rank = 8;
    return model.run(settings).at(0);
  };
  run("plain", {});
  for (const auto& [output, refinement] :
       {std::pair("still", Refinement{.when = Refinement::When::always, .steps = 1, .rate = 0}),
        {"spoilt", {.when = Refinement::When::always, .steps = 3, .rate = 1}}}) {
    const Result result = run(output, refinement);
    CHECK(result.blocks.size() == blocks);
    for (const BlockOutcome& block : result.blocks) CHECK(!block.kept);
    CHECK(hash_text(model.weights(output)) == hash_text(model.weights("plain")));
  }
}

TEST_CASE("refinement: grids, and in place of them the corrections beside them, are trained; sizes are independent") {
  Model model;
  Settings settings = model.settings("sizes", {.when = Refinement::When::always, .steps = 40, .rate = 3e-3});
  settings.grids = {quant::Grid::q3_0, quant::Grid::q2_0};
  settings.corrections = false;  // those of the rule alone
  settings.goal.ratios = {2.2, 2.6};
  settings.rules.push_back(parse_layer_rule("*layer.1*=bits:2;rank:8"));
  const std::vector<Result> both = model.run(settings);
  settings.output = model.folder / "one";
  settings.goal.ratios = {2.6};
  const std::vector<Result> one = model.run(settings);
  CHECK(hash_text(model.weights("sizes/ratio-2.6")) == hash_text(model.weights("one")));
  std::size_t corrected = 0;
  for (const LayerOutcome& layer : one.at(0).layers) corrected += layer.form == "q2_0+lowrank:q8_0";
  CHECK(corrected >= 6);
  for (const Result& result : both) {
    REQUIRE(result.blocks.size() == blocks);
    for (const BlockOutcome& block : result.blocks) CHECK(block.judged_after <= block.judged_before);
    CHECK(model.verified(base_name(result.output) == "one" ? "one" : "sizes/" + base_name(result.output)).holds());
  }
  // The first block has the same inputs in the run without refinement.
  settings.output = model.folder / "plain";
  settings.refinement = {};
  model.run(settings);
  const io::ModelFolder plain(model.folder / "plain"), refined(model.folder / "one");
  int grids = 0, cores = 0;
  for (const io::ModelFolder::Entry& entry : refined.entries()) {
    const bool first = entry.tensor.name.find("layer.0") != std::string::npos;
    const io::ModelFolder::Entry* other = plain.find(entry.tensor.name);
    REQUIRE(other);
    const bool equal =
        std::ranges::equal(refined.file_of(entry).bytes(entry.tensor), plain.file_of(*other).bytes(other->tensor));
    if (first && entry.tensor.name.ends_with(".base")) {
      CHECK(!equal);
      ++grids;
    }
    if (entry.tensor.name.find("layer.1") != std::string::npos && entry.tensor.name.ends_with(".tt.0")) {
      CHECK(!equal);
      ++cores;
    }
  }
  CHECK(grids == 6);
  CHECK(cores == 6);
}

TEST_CASE("refinement: needs text, the inputs of the compressed model, and dense weights") {
  Model model;
  const Refinement refinement{.when = Refinement::When::always};
  CHECK_THROWS_WITH(Tensorizer(model.settings("no", refinement), model.pool, nullptr),
                    Catch::Contains("give text with --calibrate"));
  Settings settings = model.settings("no", refinement);
  settings.sequential = false;
  CHECK_THROWS_WITH(model.run(settings), Catch::Contains("leave out --no-sequential"));
  settings.sequential = settings.again = true;
  CHECK_THROWS_WITH(model.run(settings), Catch::Contains("leave out --again"));
}
