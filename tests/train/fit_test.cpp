#include "lib/train/fit/fit.h"

#include <catch2/catch.hpp>

#include "lib/core/error.h"
#include "lib/train/train_options.h"
#include "tests/train/toy_run.h"

using namespace comera;
using train::FreeOptions;
using train::MemoryChoice;

namespace {

const OptionTable& table() {
  static const OptionTable rows = [] {
    OptionTable table("pretrain", "learn a task");
    table.add({{.name = "form",
                .type = OptionType::choice,
                .default_text = "tt",
                .help = "form",
                .choices = {"dense", "tt", "auto"}},
               {.name = "rank", .type = OptionType::integer, .help = "ranks"},
               {.name = "embedding-rank", .type = OptionType::integer, .help = "ranks"}});
    table.add(train::data_options()).add(train::training_options()).add(train::rank_options());
    return table.add(train::run_options());
  }();
  return rows;
}

OptionValues parse(std::vector<std::string> arguments) {
  return parse_command(table(), std::move(arguments), [](const std::string&) { return nullptr; }).values;
}

std::vector<std::string> words(const std::vector<MemoryChoice>& choices) {
  std::vector<std::string> words;
  for (const MemoryChoice& choice : choices)
    words.push_back(fmt::format("{}{} {} {} {}x{}", choice.form, choice.rank > 0 ? fmt::format("{}", choice.rank) : "",
                                choice.activations, choice.optimizer, choice.batch, choice.accumulate));
  return words;
}

// Plans of the toy model.
train::PlannedStep plan_toy(const OptionValues& values) {
  const train::TrainOptions options = train::train_options(values);
  engine::Engine engine({&kernels::reference_backend(), DType::f32, nullptr},
                        toy::factory(DType::f32, {8, true, 0.1, false}), options.training_engine());
  engine.plan_training(engine.model().planning_batch(options.batch, 16, 0));
  return {engine.planned_bytes(), engine.memory_table(options.accumulate)};
}

// A plan whose bytes are given by the settings alone: every means saves, in the order of memory_choices().
train::PlannedStep plan_by_order(const OptionValues& values) {
  const std::vector<MemoryChoice> order = memory_choices(parse({"--batch", "4"}), FreeOptions::all, {});
  const auto at = std::find(order.begin(), order.end(), train::current_choice(values));
  REQUIRE(at != order.end());
  if (at->optimizer == "muon,*=adamw8bit" && at->activations == "block,int4-stochastic")
    fail_input("[train] no weights for 8 bits");
  train::PlannedStep step;
  step.bytes = 1000 - 10 * static_cast<std::size_t>(at - order.begin());
  step.memory.rows = {{"head.logits", plan::Category::scratch, 400, 1}};
  step.memory.bytes[static_cast<int>(plan::Category::scratch)] = 400;
  return step;
}

}  // namespace

TEST_CASE(
    "memory is given up in the documented order: exact means, bf16, int8, blocks, 8-bit moments, int4, projections") {
  CHECK(words(memory_choices(parse({"--form", "dense", "--batch", "4"}), FreeOptions::open, {})) ==
        std::vector<std::string>{" keep adamw 4x1",
                                 " cheap adamw 4x1",
                                 " cheap adamw 2x2",
                                 " cheap adamw 1x4",
                                 " cheap,bf16 adamw 4x1",
                                 " cheap,bf16 adamw 2x2",
                                 " cheap,bf16 adamw 1x4",
                                 " cheap,int8 adamw 4x1",
                                 " cheap,int8 adamw 2x2",
                                 " cheap,int8 adamw 1x4",
                                 " block adamw 4x1",
                                 " block adamw 2x2",
                                 " block adamw 1x4",
                                 " block,bf16 adamw 4x1",
                                 " block,bf16 adamw 2x2",
                                 " block,bf16 adamw 1x4",
                                 " block,int8 adamw 4x1",
                                 " block,int8 adamw 2x2",
                                 " block,int8 adamw 1x4",
                                 " block,int8 adamw8bit 4x1",
                                 " block,int8 adamw8bit 2x2",
                                 " block,int8 adamw8bit 1x4",
                                 " block,int4-stochastic adamw8bit 4x1",
                                 " block,int4-stochastic adamw8bit 2x2",
                                 " block,int4-stochastic adamw8bit 1x4",
                                 " block,int4-stochastic adamw 4x1",
                                 " block,int4-stochastic adamw 2x2",
                                 " block,int4-stochastic adamw 1x4",
                                 " block,compact,int4-stochastic adamw8bit 4x1",
                                 " block,compact,int4-stochastic adamw8bit 2x2",
                                 " block,compact,int4-stochastic adamw8bit 1x4",
                                 " block,compact,int4-stochastic adamw 4x1",
                                 " block,compact,int4-stochastic adamw 2x2",
                                 " block,compact,int4-stochastic adamw 1x4"});
  for (const MemoryChoice& choice : memory_choices(parse({"--batch", "4"}), FreeOptions::open, {}))
    CHECK((choice.optimizer == "muon" || choice.optimizer == "muon,*=adamw8bit"));  // cores keep their method
}

TEST_CASE("given options stay, and every choice learns the same batch") {
  const OptionValues values =
      parse({"--batch", "6", "--accumulate", "2", "--activations", "int8", "--optimizer", "adamw8bit"});
  const std::vector<MemoryChoice> open = memory_choices(values, FreeOptions::open, {});
  CHECK(words(open) == std::vector<std::string>{" int8 adamw8bit 6x2", " int8 adamw8bit 4x3", " int8 adamw8bit 3x4",
                                                " int8 adamw8bit 2x6", " int8 adamw8bit 1x12"});
  for (const MemoryChoice& choice : memory_choices(values, FreeOptions::all, {}))
    CHECK(choice.batch * choice.accumulate == 12);
}

TEST_CASE("a task with negatives in the batch keeps its batch, in --fit and in the advice without memory") {
  const OptionValues values = parse({"--task", "pairs", "--batch", "4", "--accumulate", "2"});
  for (const FreeOptions free : {FreeOptions::open, FreeOptions::all})
    for (const MemoryChoice& choice : memory_choices(values, free, {}))
      CHECK((choice.batch == 4 && choice.accumulate == 2));
  const auto plan = [](const OptionValues&) { return train::PlannedStep{.bytes = 1000, .memory = {}}; };
  CHECK_THROWS_WITH(train::fit(values, 10, {}, plan),
                    Catch::Contains("--batch stays as it is, because the other pairs of a micro-batch"));
  CHECK(train::next_cheaper(values, 100, 0, plan).find("a pair's negatives") != std::string::npos);
}

TEST_CASE("the option --form auto tries the dense form first, then ranks by halves") {
  const std::vector<MemoryChoice> choices =
      memory_choices(parse({"--form", "auto", "--batch", "1"}), FreeOptions::open, {16, 12});
  std::vector<std::string> forms;
  for (const MemoryChoice& choice : choices) {
    const std::string form = fmt::format("{} {} {}", choice.form, choice.rank, choice.embedding_rank);
    if (forms.empty() || forms.back() != form) forms.push_back(form);
  }
  CHECK(forms == std::vector<std::string>{"dense 0 0", "tt 16 12", "tt 8 6", "tt 4 3"});
}

TEST_CASE("a form that the options refuse is not possible, and the next form is tried") {
  const OptionValues values = parse({"--form", "auto", "--batch", "2", "--optimizer", "muon"});
  const auto plan = [](const OptionValues& of) {
    if (of.text("form") == "dense") fail_input("[train] --optimizer muon: no linear weight in TT form");
    return train::PlannedStep{.bytes = static_cast<std::size_t>(of.integer("rank")), .memory = {}};
  };
  const train::Fit fit = train::fit(values, 10, {16, 16}, plan);
  CHECK(fit.rows[fit.chosen].choice.form == "tt");
  CHECK(fit.rows[fit.chosen].choice.rank == 8);
  CHECK(fit.rows[0].step.refused == "[train] --optimizer muon: no linear weight in TT form");
  CHECK(fit.rows[1].choice.form == "tt");  // one row tells why
  CHECK_THROWS_WITH(train::fit(parse({"--form", "dense"}), 10, {}, plan), Catch::Contains("--optimizer muon"));
}

TEST_CASE("a choice is the values of ordinary options") {
  OptionValues values = parse({"--form", "auto", "--batch", "8"});
  train::apply({"tt", 8, 6, "block,int8", "adamw8bit", 2, 4}, values);
  CHECK(values.text("form") == "tt");
  CHECK(values.integer("rank") == 8);
  CHECK(values.integer("embedding-rank") == 6);
  CHECK(values.canonical("activations") == "block,int8");
  CHECK(values.canonical("optimizer") == "adamw8bit");
  CHECK(values.integer("batch") == 2);
  CHECK(values.integer("accumulate") == 4);
}

TEST_CASE("a method of a choice that the call does not name counts as a default") {
  for (const std::vector<std::string>& words : {std::vector<std::string>{}, {"--optimizer", "*query=adamw8bit"}}) {
    const OptionValues values = parse(words);
    for (const MemoryChoice& choice : train::memory_policies(values)) {
      OptionValues chosen = values;
      train::apply(choice, chosen);
      CHECK(chosen.canonical("optimizer") == choice.optimizer);
      CHECK(chosen.given("optimizer") == (choice.optimizer != "muon"));
    }
  }
  OptionValues values = parse({"--optimizer", "muon"});
  train::apply(train::memory_policies(values).front(), values);
  CHECK(values.given("optimizer"));
}

TEST_CASE("cores keep the method of the call") {
  const auto optimizers = [](const char* given) {
    std::vector<std::string> found;
    for (const MemoryChoice& choice : train::memory_policies(parse({"--optimizer", given})))
      if (found.empty() || found.back() != choice.optimizer) found.push_back(choice.optimizer);
    return found;
  };
  using Words = std::vector<std::string>;
  CHECK(optimizers("adamw") == Words{"adamw", "adamw8bit", "adamw", "adamw8bit", "adamw"});
  CHECK(optimizers("galore") == optimizers("adamw"));  // cores have AdamW beside it
  CHECK(optimizers("sgd").at(1) == "sgd,*=adamw8bit");
}

TEST_CASE("a choice beyond the limit of an option is passed over") {
  const OptionValues values = parse({"--batch", "16000000"});
  const auto plan = [](const OptionValues& of) {
    return train::PlannedStep{.bytes = static_cast<std::size_t>(of.integer("batch")), .memory = {}};
  };
  CHECK_THAT(train::next_cheaper(values, 1, 0, plan), Catch::Contains("use a smaller model"));
}

TEST_CASE("the first choice below the figure is chosen, and below the minimum none") {
  const OptionValues values = parse({"--batch", "4"});
  for (const auto& [limit, chosen] : {std::pair<std::size_t, std::size_t>{1001, 0}, {1000, 1}, {990, 2}, {905, 10}})
    CHECK(train::fit(values, limit, {}, plan_by_order).chosen == chosen);
  const train::Fit last = train::fit(values, 755, {}, plan_by_order);
  CHECK(last.rows[last.chosen].choice.optimizer == "muon");  // 8-bit moments beside int4 are refused
  CHECK_THROWS_WITH(
      train::fit(values, 670, {}, plan_by_order),
      Catch::Contains("at least 670 B are needed, by --activations block,compact,int4-stochastic --optimizer "
                      "muon --batch 1 --accumulate 4 (scratch 400 B; the largest part is head.logits (400 B)") &&
          Catch::Contains("--fit 1MiB or more"));
}

TEST_CASE("an input error of the call itself is thrown") {
  CHECK_THROWS_WITH(
      train::fit(parse({}), 100, {}, [](const OptionValues&) -> train::PlannedStep { fail_input("no model"); }),
      Catch::Contains("no model"));
}

TEST_CASE("each policy of the order needs less memory for saved tensors, and the choice follows the figure") {
  const OptionValues values = parse({"--form", "dense", "--batch", "8", "--activations", "keep"});
  const train::Fit all = train::fit(values, std::size_t{1} << 40, {}, plan_toy);
  CHECK(all.chosen == 0);
  REQUIRE(all.rows.size() >= 4);
  for (const train::PlannedChoice& row : all.rows) {
    if (!row.step.refused.empty()) continue;
    const train::Fit fitted = train::fit(values, row.step.bytes + 1, {}, plan_toy);
    CHECK(fitted.rows[fitted.chosen].step.bytes <= row.step.bytes);
    for (std::size_t before = 0; before < fitted.chosen; ++before)
      CHECK((!fitted.rows[before].step.refused.empty() || fitted.rows[before].step.bytes > row.step.bytes));
  }
}

TEST_CASE("a run without enough memory gets the next cheaper choice after its own") {
  OptionValues values = parse({"--optimizer", "muon", "--batch", "4"});
  CHECK(train::next_cheaper(values, 1000, 0, plan_by_order) ==
        "--activations cheap needs 990 B by plan; --fit SIZE chooses by itself");
  CHECK(train::next_cheaper(values, 1000, 975, plan_by_order) ==
        "--activations cheap --batch 1 --accumulate 4 needs 970 B by plan; --fit SIZE chooses by itself");
  values = parse({"--optimizer", "muon", "--batch", "4", "--activations", "block,int8"});
  CHECK_THAT(train::next_cheaper(values, 840, 0, plan_by_order),
             Catch::StartsWith("--batch 2 --accumulate 2 needs 830 B"));
  CHECK_THAT(train::next_cheaper(values, 840, 10, plan_by_order), Catch::Contains("use a smaller model"));
}
