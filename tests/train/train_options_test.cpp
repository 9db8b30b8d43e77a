#include "lib/train/train_options.h"

#include <catch2/catch.hpp>

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"
#include "lib/train/run_folder.h"

using namespace comera;

namespace {

OptionTable table() {
  OptionTable table("pretrain", "learn a task");
  table.add(train::data_options()).add(train::training_options()).add(train::rank_options()).add(train::run_options());
  table.foreign_table("hashes").foreign_table("paths");
  return table;
}

train::TrainOptions parse(std::vector<std::string> arguments) {
  static const OptionTable rows = table();
  return train::train_options(
      parse_command(rows, std::move(arguments), [](const std::string&) { return nullptr; }).values);
}

}  // namespace

TEST_CASE("defaults are the published settings") {
  const train::TrainOptions options = parse({"--steps", "10"});
  CHECK(options.rate == 5e-5);
  CHECK(options.rate_cores == 1e-4);
  CHECK(options.rate_ranks == 1e-3);
  CHECK(options.ranks.threshold == 0.01);
  CHECK(options.ranks.gamma == 0.01);
  CHECK(options.ranks.rho_loss == 0.1);
  CHECK(options.ranks.rho_size == 0.01);
  CHECK(options.ranks.loss_tolerance == 0);
  CHECK(options.optimizer.beta == 1e-6);
  CHECK(options.optimizer.penalty == kernels::RankPenalty::size);
  CHECK(options.ranks.adapt);
  CHECK(options.best_by == train::Metric::accuracy);
  CHECK(parse({"--task", "mlm"}).best_by == train::Metric::loss);
}

TEST_CASE("options that contradict each other are refused") {
  CHECK_THROWS_AS(parse({"--target-ratio", "20", "--target-fraction", "0.5"}), InputError);
  CHECK_THROWS_AS(parse({"--no-adapt-ranks", "--target-ratio", "20"}), InputError);
  CHECK_THROWS_AS(parse({"--steps", "5", "--epochs", "2"}), InputError);
  CHECK_THROWS_AS(parse({"--steps", "5", "--epochs", "0"}), InputError);
  CHECK_NOTHROW(parse({"--resume", "run", "--steps", "5", "--epochs", "0"}));  // in place of the recipe's epochs
  CHECK_THROWS_WITH(parse({"--max-time", "500"}), Catch::Contains("--max-time is a time"));
  CHECK_THROWS_AS(parse({"--target-fraction", "1.5"}), InputError);
}

TEST_CASE("intervals of zero are refused") {
  for (const char* name : {"--eval-every", "--save-every"}) {
    for (const char* zero : {"0", "0e", "0s"})
      CHECK_THROWS_WITH(parse({name, zero}), Catch::Contains("leave it out to have only the end"));
    CHECK_NOTHROW(parse({name, "0.01e"}));
  }
}

TEST_CASE("batches beyond any memory are refused by name") {
  CHECK_THROWS_WITH(parse({"--accumulate", "1000000000"}), Catch::Contains("--accumulate: 1000000000 is too large"));
  CHECK_THROWS_WITH(parse({"--batch", "4294967296"}), Catch::Contains("--batch: 4294967296 is too large"));
}

TEST_CASE("decays of moments lie below 1") {
  for (const char* name : {"--beta1", "--beta2"}) {
    CHECK_THROWS_WITH(parse({name, "1"}), Catch::Contains("use a value below 1"));
    CHECK_NOTHROW(parse({name, "0.9999"}));
    CHECK_NOTHROW(parse({name, "0"}));
  }
  CHECK_THROWS_WITH(parse({"--epsilon", "0"}), Catch::Contains("use a value above 0"));
}

TEST_CASE("a run of unknown length is refused, except with a constant schedule") {
  CHECK(train::total_steps(parse({"--steps", "70"}), 10) == 70);
  CHECK(train::total_steps(parse({"--epochs", "2.5"}), 10) == 25);
  CHECK_THROWS_WITH(train::total_steps(parse({"--epochs", "2"}), 0), Catch::Contains("--steps"));
  CHECK_THROWS_WITH(train::total_steps(parse({}), 10), Catch::Contains("--max-time"));
  CHECK_THROWS_WITH(train::total_steps(parse({"--max-time", "20m"}), 10), Catch::Contains("--schedule constant"));
  CHECK(train::total_steps(parse({"--max-time", "20m", "--schedule", "constant"}), 10) == 0);
}

TEST_CASE("a resume refuses options that would change the result, and names them") {
  set_up_log({LogLevel::error});
  const OptionTable rows = table();
  const auto values = [&](std::vector<std::string> arguments) {
    return parse_command(rows, std::move(arguments), [](const std::string&) { return nullptr; }).values;
  };
  const OptionValues before = values({"--steps", "100", "--lr", "1e-3", "--keep", "2"});
  CHECK_NOTHROW(train::check_resume(
      before, values({"--steps", "100", "--lr", "0.001", "--keep", "5", "--save-every", "20m"}), false));
  CHECK_THROWS_WITH(train::check_resume(before, values({"--steps", "200", "--lr", "1e-3"}), false),
                    Catch::Contains("--steps was 100 and is 200") && Catch::Contains("--override"));
  CHECK_NOTHROW(train::check_resume(before, values({"--steps", "200", "--lr", "1e-3"}), true));
  const train::RecipeHashes hashes{"aa", "bb", "cc"};
  const std::string recipe = train::recipe_text(before, hashes);
  const train::RecipeHashes read = train::recipe_hashes(recipe, "recipe.toml");
  CHECK(read.data == "aa");
  CHECK(read.tokenizer == "cc");
  CHECK_NOTHROW(train::check_resume(read, hashes, false));
  CHECK_THROWS_WITH(train::check_resume(read, {"dd", "bb", "cc"}, false), Catch::Contains("training data changed"));
  const plan::PathTable paths{{"tt_linear_forward bf16 4096 x 768 -> 768/32 768/0 gelu", plan::Path::library},
                              {"tt_linear_backward f32 8 x 12 -> 16/16, adds dx", plan::Path::fused}};
  CHECK(train::recipe_paths(recipe + train::recipe_text(paths), "recipe.toml") == paths);
  CHECK(train::recipe_text(plan::PathTable()).empty());
  OptionValues again(rows);
  apply_toml(again, recipe + train::recipe_text(paths), "recipe.toml");
  apply_toml(again, recipe, "recipe.toml");
  CHECK(changed_options(before, again).empty());
}
