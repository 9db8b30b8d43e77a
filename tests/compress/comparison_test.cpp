#include "lib/compress/check/comparison.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "kernels/host/thread_pool.h"
#include "lib/compress/calibration/sample_text.h"
#include "lib/compress/check/agreement.h"
#include "lib/compress/tensorize.h"
#include "lib/core/error.h"
#include "tests/compress/small_models.h"
#include "tests/core/temporary_folder.h"

using namespace comera;
using namespace comera::compress;

namespace {

Given given(std::vector<float> hidden, std::vector<double> embedding, std::vector<double> logits) {
  return {std::move(hidden), std::move(embedding), std::move(logits), {}, 0};
}

std::vector<Result> cut(const std::string& model, const std::string& output, double ratio) {
  kernels::ThreadPool pool(1);
  Settings settings;
  settings.model = model, settings.output = output;
  settings.goal.ratios = {ratio};
  settings.choice.exclude = {"*position*", "*type*"};
  Tensorizer tensorizer(settings, pool, nullptr);
  return tensorizer.run();
}

void write_config(const std::string& folder, const char* architecture) {
  io::Json json = config();
  json["architectures"] = {architecture};
  if (std::string(architecture) == "BertModel") json["id2label"] = {{"0", "a"}, {"1", "b"}, {"2", "c"}};
  write_file_atomic(folder + "/config.json", io::json_text(json));
}

}  // namespace

TEST_CASE("agreement: error and rank correlation of two regressions") {
  Agreement agreement(4);
  Given before, after;
  before.scores = {1, 2, 3}, after.scores = {1, 2.5, 2};
  agreement.add(before, after, 0, std::vector<std::size_t>{0, 1, 2}, {});
  before.scores = {4}, after.scores = {4};
  agreement.add(before, after, 0, std::vector<std::size_t>{3}, {});
  const Comparison comparison = agreement.result();
  REQUIRE(comparison.scores);
  CHECK(comparison.scores->count == 4);
  CHECK(comparison.scores->difference == Approx(std::sqrt(1.25 / 4)));
  CHECK(comparison.scores->spearman == Approx(0.8));
  CHECK_FALSE(comparison.answers);
}

TEST_CASE("agreement: cosines, divergence and perplexity match their definitions") {
  Agreement agreement(1);
  // Two tokens, one pair of vectors at 60 degrees and one parallel. One text with opposite embeddings. The next token
  // has probability one half in the first model and one quarter in the second.
  const double l = std::log(0.5), q = std::log(0.25);
  agreement.add(given({2, 0, 0, 3}, {1, 1}, {l, q, q}),
                given({1, std::sqrt(3.0F), 0, 1}, {-2, -2}, {q + 1, q + 1, l + 1}), 2, std::vector<std::size_t>{0},
                std::vector<std::int32_t>{0});
  const Comparison comparison = agreement.result();
  CHECK(comparison.hidden->mean == Approx(0.75));
  CHECK(comparison.hidden->least == Approx(0.5));
  CHECK(comparison.embedding->mean == Approx(-1));
  CHECK(!comparison.order);
  CHECK(comparison.answers->kl.value() == Approx(0.5 * std::log(2) - 0.25 * std::log(2)));
  CHECK(comparison.answers->same_best == 0);
  CHECK(comparison.answers->perplexity_before.value() == Approx(2));
  CHECK(comparison.answers->perplexity.value() == Approx(4));
  CHECK(comparison.words);
  Agreement other(1);
  CHECK_THROWS_AS(other.add(given({1, 2}, {}, {}), given({1, 2, 3, 4}, {}, {}), 1, std::vector<std::size_t>{0}, {}),
                  InputError);
}

TEST_CASE("agreement: the rank correlation of similarities uses all pairs and ignores the scale") {
  Agreement agreement(3);
  const std::vector<double> before{1, 0, 0.9, 0.1, 0, 1}, turned{0, 2, 0.2, 1.8, 2, 0};
  agreement.add(given({}, before, {}), given({}, turned, {}), 0, std::vector<std::size_t>{0, 1, 2}, {});
  CHECK(agreement.result().order.value() == Approx(1));
}

TEST_CASE("agreement: of many texts the pairs are spread evenly, in whatever order batches bring them") {
  constexpr std::size_t texts = 700;
  // The embeddings of the first half of the texts stay, those of the other half are all turned by other angles.
  const auto order_of = [&](auto place_of) {
    Agreement agreement(texts);
    for (std::size_t i = 0; i < texts; ++i) {
      const std::size_t place = place_of(i);
      const double angle = static_cast<double>(place * place % 97), turn = place < texts / 2 ? 0 : 3 * angle;
      agreement.add(given({}, {std::cos(angle), std::sin(angle)}, {}),
                    given({}, {std::cos(angle + turn), std::sin(angle + turn)}, {}), 0, std::vector{place}, {});
    }
    return agreement.result().order.value();
  };
  const double forwards = order_of([](std::size_t i) { return i; });
  CHECK(forwards < 0.9);  // the first texts alone would give 1
  CHECK(forwards > 0.1);  // the last texts alone would give about 0
  CHECK(order_of([](std::size_t i) { return texts - 1 - i; }) == Approx(forwards).epsilon(1e-12));
}

TEST_CASE("comparison: the cost that tensorize reports equals a comparison of the two folders, for every task") {
  for (const char* architecture : {"BertModel", "BertForMaskedLM"}) {
    const TemporaryFolder folder;
    write_model(folder.path());
    write_config(folder.path(), architecture);
    write_text(folder / "text.txt");
    std::vector<Result> results = cut(folder.path(), folder / "small", 1.6);
    ComparisonText text;
    text.files = {folder / "text.txt"};
    text.length = 24;
    measure_cost(machine(), folder.path(), text, results);
    const Comparison& cost = results[0].cost.value();
    REQUIRE(cost.left_out.empty());
    const Comparison folders = compare_models(machine(), folder.path(), folder / "small", text);
    CHECK(cost.tokens == folders.tokens);
    REQUIRE(cost.hidden);
    CHECK(cost.hidden->mean < 0.999);
    CHECK(cost.hidden->mean > 0);
    CHECK(cost.hidden->mean == Approx(folders.hidden->mean).epsilon(1e-4));
    CHECK(cost.embedding.has_value() == (std::string(architecture) == "BertModel"));
    if (cost.embedding) CHECK(cost.embedding->mean == Approx(folders.embedding->mean).epsilon(1e-4));
    if (cost.answers)
      CHECK(cost.answers->perplexity.value() == Approx(folders.answers->perplexity.value()).epsilon(1e-4));
    CHECK(cost.answers.has_value() == (std::string(architecture) == "BertForMaskedLM"));
    const Comparison itself = compare_models(machine(), folder.path(), folder.path(), text);
    CHECK(itself.hidden->least == Approx(1).epsilon(1e-6));
    if (itself.answers) CHECK(itself.answers->same_best == 1);
    // A smaller model has a larger error.
    std::vector<Result> smaller = cut(folder.path(), folder / "smaller", 3);
    measure_cost(machine(), folder.path(), text, smaller);
    CHECK(smaller[0].cost->hidden->mean < cost.hidden->mean);
  }
}

TEST_CASE("comparison: measurements that are impossible are left out with a reason and do not fail") {
  const TemporaryFolder folder;
  write_model(folder.path());
  std::vector<Result> results = cut(folder.path(), folder / "small", 1.6);
  remove_tree(folder / "vocab.txt");
  measure_cost(machine(), folder.path(), {}, results);
  CHECK_THAT(results[0].cost->left_out, Catch::Contains("vocab.txt"));
  write_file_atomic(folder / "config.json", R"({"model_type": "elsewhere"})");
  results[0].cost.reset();
  measure_cost(machine(), folder.path(), {}, results);
  CHECK_THAT(results[0].cost->left_out, Catch::Contains("elsewhere"));
}

TEST_CASE("comparison: a long text is thinned evenly to the requested number of tokens") {
  const TemporaryFolder folder;
  write_model(folder.path());
  write_text(folder / "text.txt");
  ComparisonText text;
  text.files = {folder / "text.txt"};
  text.length = 24, text.tokens = 300;
  const Comparison comparison = compare_models(machine(), folder.path(), folder.path(), text);
  CHECK(comparison.tokens <= 300);
  CHECK(comparison.tokens > 250);
  CHECK(sample_text().size() >= 40);
}
