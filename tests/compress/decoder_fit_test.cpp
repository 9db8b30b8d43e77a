// The decoder of words as a layer that is fitted to its inputs.
#include "lib/compress/fit/decoder_fit.h"

#include <catch2/catch.hpp>

#include "kernels/host/thread_pool.h"
#include "lib/compress/calibration/calibration.h"
#include "lib/compress/check/verify.h"
#include "lib/compress/tensorize.h"
#include "lib/tt/data_aware.h"
#include "tests/compress/small_models.h"
#include "tests/core/temporary_folder.h"
#include "tests/tt/random_matrix.h"

using namespace comera;
using namespace comera::compress;
using test::random_matrix;
using tt::Matrix;

namespace {

const LayerOutcome& layer_of(const Result& result, const std::string& name) {
  const auto found =
      std::find_if(result.layers.begin(), result.layers.end(), [&](const auto& one) { return one.name == name; });
  REQUIRE(found != result.layers.end());
  return *found;
}

struct Decoder {
  TemporaryFolder folder;
  kernels::ThreadPool pool{2};

  explicit Decoder(bool tied) {
    write_decoder(folder.path(), tied);
    write_text(folder / "text.txt");
  }
  std::unique_ptr<InputMoments> moments() const {
    return calibrate(machine(), {folder.path(), {folder / "text.txt"}, "", 1400, 24});
  }
  // Every weight in three bits.
  Result run(const std::string& output, bool calibrated) {
    Settings settings;
    settings.model = folder.path();
    settings.output = folder / output;
    settings.goal.rank = 0;
    settings.grids = {quant::Grid::q3_0};
    return Tensorizer(settings, pool, calibrated ? moments() : nullptr).run().at(0);
  }
};

}  // namespace

TEST_CASE("decoder of words: its rows are those of a linear layer, in any number of parts") {
  const std::int64_t words = 2500, columns = 64;  // three parts
  const Matrix table = random_matrix(words, columns, 1), fitted = random_matrix(words, columns, 2);
  const Matrix moment = tt::gram(tt::multiply(random_matrix(300, 8, 3), random_matrix(8, columns, 4)));
  const quant::LinearFit inputs(moment, {.sweeps = 1});
  CHECK(fit_decoder(table, inputs, quant::Grid::q3_0).bytes ==
        inputs.fit(tt::transposed(table), quant::Grid::q3_0).bytes);
  Candidate candidate;
  candidate.decodes = true;
  CHECK(errors_of_outputs(candidate, table, fitted, moment).share ==
        Approx(tt::output_error(tt::transposed(table), tt::transposed(fitted), moment)).epsilon(1e-9));
  CHECK(output_norm(candidate, table, moment) == Approx(tt::output_norm(tt::transposed(table), moment)).epsilon(1e-9));
}

TEST_CASE("decoder of words: with text it loses less of its logits than rounding, and the certificate holds") {
  Decoder model(false);
  model.run("rounded", false);
  const Result result = model.run("fitted", true);
  const LayerOutcome& head = layer_of(result, "lm_head");
  CHECK(head.form == "q3_0");
  CHECK(head.table);
  // The same errors of the rounded table, on the inputs of the same compressed blocks.
  const auto moments = model.moments();
  const Verification verification = verify(model.folder / "fitted", model.folder.path(), moments.get(), model.pool);
  CHECK(verification.holds());
  const auto checked = std::find_if(verification.layers.begin(), verification.layers.end(),
                                    [](const LayerCheck& layer) { return layer.name == "lm_head.weight"; });
  REQUIRE(checked != verification.layers.end());
  REQUIRE(checked->output_error);
  CHECK(*checked->output_error == Approx(head.output_error.value()).epsilon(1e-3));
  const io::ModelFolder dense(model.folder.path()), rounded(model.folder / "rounded");
  const Candidate candidate = find_candidates(dense, {.include = {"lm_head"}, .exclude = {}})[0];
  const auto block = io::parse_comera_block(rounded.config(), "");
  double error = 0;
  moments->restore();
  moments->visit({}, [&](const MomentGroup& group) {
    if (group.layers.front() != "lm_head") return;
    for (const io::ChainSpec& chain : block->chains)
      if (chain.name == "lm_head")
        error = errors_of_outputs(candidate, read_weight(dense, candidate),
                                  tt::to_double(io::read_matrix(rounded, chain, {})), group.judged.moment)
                    .share;
  });
  CHECK(error > 1.5 * *head.output_error);
}

TEST_CASE("decoder of words: the effect of a weight is the divergence of the next word") {
  for (const bool tied : {false, true}) {
    Decoder model(tied);
    const auto moments = model.moments();
    const std::string name = tied ? "model.embed_tokens" : "lm_head", down = "model.layers.1.mlp.down_proj";
    const io::ModelFolder folder(model.folder.path());
    const Candidate candidate = find_candidates(folder, {.include = {name}, .exclude = {}})[0];
    Matrix table = read_weight(folder, candidate);
    CHECK(moments->effect(name, table) == 0.0);
    const double gone = moments->effect(down, Matrix(intermediate, hidden)).value();
    CHECK(gone > 1e-4);
    CHECK(moments->effect(down, Matrix(intermediate, hidden)) == gone);
    // Logits that all change by the same share s have a divergence of s² Var_p(z) / 2.
    for (double& number : table.values) number *= 1.01;
    const double little = moments->effect(name, table).value();
    for (double& number : table.values) number *= 1.02 / 1.01;
    CHECK(moments->effect(name, table).value() == Approx(4 * little).epsilon(0.05));
    CHECK(little > 0);
  }
}

TEST_CASE("decoder of words: one that is the word table too moves the next words less than rounding") {
  Decoder model(true);
  model.run("rounded", false);
  const Result result = model.run("fitted", true);
  CHECK(layer_of(result, "model.embed_tokens").form == "q3_0");
  const auto moments = model.moments();
  CHECK(verify(model.folder / "fitted", model.folder.path(), moments.get(), model.pool).holds());
  moments->restore();
  const auto moved = [&](const std::string& output) {
    const io::ModelFolder folder(model.folder / output);
    const auto block = io::parse_comera_block(folder.config(), "");
    for (const io::ChainSpec& chain : block->chains)
      if (chain.name == "model.embed_tokens")
        return moments->effect(chain.name, tt::to_double(io::read_matrix(folder, chain, {}))).value();
    return -1.0;
  };
  const double rounded = moved("rounded"), fitted = moved("fitted");
  CHECK(fitted > 0);
  CHECK(fitted < 0.95 * rounded);
}
