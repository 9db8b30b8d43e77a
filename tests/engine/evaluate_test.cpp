#include "lib/engine/evaluate.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "tests/engine/toy_model.h"

using namespace comera;

TEST_CASE("an evaluation counts every example once, whatever the batch") {
  const auto tokenizer = data::parse_wordpiece("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\nd\ne\n", "vocab.txt");
  std::vector<std::vector<std::string>> texts;
  std::vector<std::int32_t> labels;
  for (int i = 0; i < 29; ++i)
    texts.push_back({std::string(1 + static_cast<std::size_t>(i % 5), 'a')}), labels.push_back(i % 4 == 3 ? -1 : i % 3);
  const auto dataset = data::Dataset::from_rows(toy::data_spec(), tokenizer, texts, labels, {"x", "y", "z"});
  engine::Engine engine({&kernels::reference_backend(), DType::f64, nullptr}, toy::factory(DType::f64), {});
  engine.allocate();
  engine.weights().initialise(2);
  std::vector<engine::Evaluation> results;
  for (std::int64_t batch : {1, 4, 29}) {
    std::vector<engine::Prediction> predictions;
    results.push_back(engine::evaluate(engine, dataset, {batch, 0, 0.15, 1},
                                       [&](const engine::Prediction& p) { predictions.push_back(p); }));
    REQUIRE(predictions.size() == 29);
    double hits = 0, known = 0;
    for (std::size_t i = 0; i < predictions.size(); ++i) {
      CHECK(predictions[i].row == static_cast<std::int64_t>(i));
      CHECK(predictions[i].label == labels[i]);
      CHECK(predictions[i].probability > 1.0 / 3 - 1e-12);
      CHECK(predictions[i].probability < 1);
      known += labels[i] >= 0;
      hits += predictions[i].predicted == labels[i];
    }
    const engine::Evaluation& result = results.back();
    CHECK(result.counted == known);
    CHECK(result.accuracy == Approx(hits / known));
    std::int64_t confusion = 0, diagonal = 0;
    for (std::size_t row = 0; row < 3; ++row) {
      confusion += std::accumulate(result.confusion[row].begin(), result.confusion[row].end(), std::int64_t{0});
      diagonal += result.confusion[row][row];
    }
    CHECK(confusion == known);
    CHECK(diagonal == hits);
    CHECK(result.loss == Approx(results.front().loss).epsilon(1e-12));
  }
  CHECK(engine.memory_table().of(plan::Category::optimizer) == 0);
}
