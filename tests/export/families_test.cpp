// Every family of tests/models/families_reference.h through `tensorize` at full rank, back to a dense folder, and
// through ONNX export. The exports check themselves; the answers of the last folder are compared with transformers'.
#include "tests/models/families.h"

#include <catch2/catch.hpp>

#include "kernels/host/cpu_backend.h"
#include "lib/compress/plan/candidates.h"
#include "lib/compress/plan/plan.h"
#include "lib/compress/tensorize.h"
#include "lib/engine/generate.h"
#include "lib/engine/weights_file.h"
#include "lib/export/compare.h"
#include "lib/export/dense_folder.h"
#include "lib/export/evaluator/evaluator.h"
#include "lib/export/export.h"
#include "tests/core/temporary_folder.h"

using namespace comera;

namespace {

// Runs `body` with an engine that has the weights of the folder.
template <class Body>
void with_engine(const plan::Machine& machine, const std::string& folder, const Body& body) {
  const models::ModelSpec spec = models::spec_from_folder(folder);
  engine::Engine engine(machine, models::factory_of(spec, machine.dtype), {.fetch_hidden = true});
  engine.allocate();
  engine::load_weights(folder, engine.weights());
  engine.weights_changed();
  body(spec, engine);
}

// The values that families_reference.py writes.
std::vector<double> answers_of(const plan::Machine& machine, const std::string& folder) {
  std::vector<double> answers;
  with_engine(machine, folder, [&](const models::ModelSpec& spec, engine::Engine& engine) {
    answers = std::holds_alternative<models::EncoderSpec>(spec)
                  ? families::encoder_answers(models::common(spec), engine)
                  : families::decoder_answers(engine);
  });
  return answers;
}

void export_graphs(const plan::Machine& machine, const std::string& folder, const std::string& to) {
  const io::ModelFolder files(folder);
  with_engine(machine, folder, [&](const models::ModelSpec& spec, engine::Engine& engine) {
    for (const bool with_past : {false, true}) {
      if (with_past && !std::holds_alternative<models::DecoderSpec>(spec)) continue;
      const exporting::ExportOptions options{.with_past = with_past};
      const exporting::Exported exported =
          exporting::export_onnx(files, spec, options, {to + (with_past ? "-past" : "")}, engine);
      CHECK(exported.difference->values > 0);
    }
  });
}

// Compresses the model at full rank, goes back, exports all three, and compares the last folder with `wanted`.
void check_round_trip(const char* config, std::vector<double> wanted) {
  kernels::ThreadPool pool(1);
  const tt::UsePool use(pool);
  const char* error = nullptr;
  const plan::Machine single{kernels::cpu_backend("auto", &error), DType::f32, &pool},
      doubled{&kernels::reference_backend(), DType::f64, nullptr};
  const TemporaryFolder place;
  make_folders(place / "dense");
  families::write_folder(place / "dense", config);
  compress::Settings settings;
  settings.model = place / "dense", settings.output = place / "chains";
  settings.goal.rank = 1;
  settings.form = compress::PlannedForm::lowrank;
  // A rank that is asked for by name may exceed what saves bytes.
  const io::ModelFolder dense(place / "dense");
  for (const compress::Candidate& weight : compress::find_candidates(dense, {})) {
    compress::LayerRule rule;
    rule.text = rule.pattern = weight.name;
    rule.rank = std::min(weight.in(), weight.out());
    settings.rules.push_back(rule);
  }
  const std::vector<compress::Result> results = compress::Tensorizer(settings, pool, nullptr).run();
  CHECK(results.at(0).layers.size() == settings.rules.size());
  CHECK(settings.rules.size() >= 9);
  export_graphs(single, place / "dense", place / "dense-onnx");
  export_graphs(single, place / "chains", place / "chains-onnx");
  const io::ModelFolder chains(place / "chains");
  with_engine(single, place / "chains", [&](const models::ModelSpec& spec, engine::Engine& engine) {
    exporting::write_dense_folder(chains, {place / "back"}, [&](const std::string& made) {
      exporting::check_dense_folder(made, place / "back", chains, spec, engine);
    });
  });
  const exporting::Answer answer{.model = answers_of(doubled, place / "back"),
                                 .graph = std::move(wanted),
                                 .graph_singles = {answers_of(single, place / "dense")}};
  // A weight that is multiplied out from its factors is rounded as often as a product of a layer.
  exporting::Difference difference;
  exporting::add_batch(difference, answer);
  exporting::finish(difference, std::ssize(results[0].layers), 1);
  CHECK(difference.largest <= difference.bound);
  CHECK(difference.bound < 1e-4);
}

// The vectors that the graph of a bare encoder gives to the tokens 5, 6, 7, 8 where `mask` has its ones.
std::vector<double> vectors_at(io::OnnxFile& graph, const std::vector<std::int64_t>& mask, std::int64_t pad) {
  exporting::Array ids{{1, std::ssize(mask)}, false, {}, {}}, ones{ids.dims, false, {}, mask};
  std::int64_t next = 5;
  for (const std::int64_t one : mask) ids.integers.push_back(one == 1 ? next++ : pad);
  const exporting::Arrays given{{"input_ids", ids}, {"attention_mask", ones}};
  const exporting::Array all = exporting::evaluate(graph, given, exporting::Precision::doubled).at("last_hidden_state");
  const auto width = static_cast<std::ptrdiff_t>(all.dims.at(2));
  std::vector<double> found;
  for (std::ptrdiff_t t = 0; t < std::ssize(mask); ++t)
    if (mask[static_cast<std::size_t>(t)] == 1)
      found.insert(found.end(), all.reals.begin() + t * width, all.reals.begin() + (t + 1) * width);
  return found;
}

}  // namespace

TEST_CASE("families: tensorize at full rank and back, and ONNX, keep the answers of decoders") {
  for (const families::Family& family : families::all) {
    INFO(family.name);
    std::vector<double> wanted;
    for (const auto& row : family.logits) wanted.insert(wanted.end(), std::begin(row), std::end(row));
    check_round_trip(family.config, std::move(wanted));
  }
}

TEST_CASE("families: tensorize at full rank and back, and ONNX, keep the answers of encoders") {
  for (const families::EncoderFamily& family : families::encoders) {
    INFO(family.name);
    check_round_trip(family.config, family.answers);
  }
}

// transformers counts the positions of RoBERTa over the tokens alone.
TEST_CASE("families: positions of RoBERTa and MPNet are those of tokens, wherever the padding is") {
  kernels::ThreadPool pool(1);
  const tt::UsePool use(pool);
  const char* error = nullptr;
  const plan::Machine machine{kernels::cpu_backend("auto", &error), DType::f32, &pool};
  int compared = 0;
  for (const families::EncoderFamily& family : families::encoders) {
    const std::string name = family.name;
    if (name != "roberta" && name != "mpnet") continue;
    INFO(name);
    const TemporaryFolder place;
    make_folders(place / "model");
    const models::ModelSpec spec = families::write_folder(place / "model", family.config);
    export_graphs(machine, place / "model", place / "graph");
    io::OnnxFile graph(place / "graph/model.onnx");
    const auto vectors = [&](const std::vector<std::int64_t>& mask) {
      return vectors_at(graph, mask, models::common(spec).pad);
    };
    const std::vector<double> right = vectors({1, 1, 1, 1, 0, 0, 0});
    CHECK_THAT(vectors({0, 0, 0, 1, 1, 1, 1}), Catch::Matchers::Approx(right).margin(1e-12));
    // The relative bias of MPNet is between places.
    if (name == "roberta") CHECK_THAT(vectors({1, 0, 1, 0, 0, 1, 1}), Catch::Matchers::Approx(right).margin(1e-12));
    ++compared;
  }
  CHECK(compared == 2);
}
