#include <catch2/catch.hpp>

#include "lib/compress/check/certificate.h"
#include "lib/compress/plan/plan_file.h"
#include "lib/core/error.h"
#include "tests/compress/planned.h"
#include "tests/core/cpu_seconds.h"
#include "tests/core/temporary_folder.h"

using namespace comera;
using namespace comera::compress;
using Catch::Matchers::Contains;

namespace {

Candidate linear(const char* name, std::int64_t out, std::int64_t in) {
  return {name, std::string(name) + ".weight", false, false, io::StoredType::F16, {out, in}};
}

std::vector<Candidate> candidates() {
  Candidate table{"words", "words.weight", true, false, io::StoredType::F32, {100, 16}};
  return {linear("up", 32, 16), linear("down", 16, 32), table};
}

template <class Work>
std::string message(Work work) {
  try {
    work();
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

std::vector<LayerJob> jobs() {
  std::vector<LayerJob> all;
  for (const Candidate& candidate : candidates()) all.push_back({.number = all.size(), .candidate = candidate});
  return all;
}

// The candidates with these plans.
std::vector<LayerJob> jobs_with(const std::vector<LayerPlan>& plans) {
  std::vector<LayerJob> all = jobs();
  for (LayerJob& job : all) job.sizes.push_back({.plan = plans[job.number]});
  return all;
}

std::string refusal(const std::string& layer) {
  std::vector<LayerJob> all = jobs();
  return message([&] { read_plan_file(R"({"comera_plan": 1, "layers": [)" + layer + "]}", "p.json", all); });
}

// Writes a folder with these matrices and this config.json.
void write_model(const TemporaryFolder& folder, const std::string& config,
                 const std::vector<std::pair<std::string, io::FileShape>>& tensors) {
  const std::vector<float> zeros(4096);
  std::vector<io::TensorToWrite> all;
  for (const auto& [name, shape] : tensors) all.push_back({name, io::StoredType::F32, shape, zeros.data()});
  io::write_safetensors(folder / "model.safetensors", all, {});
  write_file_atomic(folder / "config.json", config);
}

std::vector<std::string> names_of(const std::vector<Candidate>& all) {
  std::vector<std::string> names;
  for (const Candidate& candidate : all) names.push_back(candidate.name);
  return names;
}

}  // namespace

TEST_CASE("compress plan: a written plan reads back, and layers not in the plan stay dense") {
  const io::Json json = plan_file(
      jobs_with({planned("up", PlannedForm::tt, {4, 4}, {32}, 8),
                 planned("down", PlannedForm::keep_dense, {}, {}, 0, true, "slow"),
                 planned("words", GENERATE(PlannedForm::lowrank, PlannedForm::grid), {}, {}, 3, true, "", 12)}),
      0, 0);
  std::vector<LayerJob> again = jobs(), partial = jobs();
  CHECK(read_plan_file(io::json_text(json), "p.json", again) == 0);
  CHECK(plan_file(again, 0, 0) == json);
  CHECK(read_plan_file(R"({"comera_plan": 1, "layers": [{"name": "down", "form": "auto", "rank": 5}]})", "p.json",
                       partial) == 0);
  CHECK(partial[0].sizes[0].plan.form == PlannedForm::keep_dense);
  CHECK(partial[1].sizes[0].plan.rank == 5);
}

TEST_CASE("compress plan: exact rows require a table, are fewer than all rows, and count as bytes") {
  const char* words = R"({"name": "words", "form": "lowrank", "rank": 3, "exact_rows": )";
  CHECK(refusal(std::string(words) + "99}") == "accepted");
  CHECK_THAT(refusal(std::string(words) + "100}"), Contains("100 exact rows are not between 0 and 99"));
  CHECK_THAT(refusal(std::string(words) + "-1}"), Contains("-1 exact rows"));
  CHECK_THAT(refusal(std::string(words) + "1.5}"), Contains("whole number"));
  CHECK_THAT(refusal(R"({"name": "up", "form": "lowrank", "rank": 3, "exact_rows": 2})"),
             Contains("a linear layer has none"));
  LayerPlan plan = planned("words", PlannedForm::lowrank, {}, {}, 3, true, "", 12);
  CHECK(planned_bytes(plan, candidates()[2]) == 4 * (100 * 3 + 3 * 16) + 12 * (4 + 4 * 16));
  const char* on_grid = R"({"name": "words", "form": "grid", "base": "q2_0", "exact_rows": )";
  CHECK(refusal(std::string(on_grid) + "99}") == "accepted");
  CHECK_THAT(refusal(std::string(on_grid) + "100}"), Contains("100 exact rows are not between 0 and 99"));
  CHECK_THAT(refusal(R"({"name": "up", "form": "grid", "base": "q2_0", "exact_rows": 2})"),
             Contains("a linear layer has none"));
  plan = planned("words", PlannedForm::grid, {}, {}, 0, true, "", 12);  // q4_0, and half precision beside it
  CHECK(planned_bytes(plan, candidates()[2]) == 100 * 18 + 12 * (4 + 2 * 16));
  CHECK(parse_layer_rule("words=exact:7;rank:2").exact == 7);
  CHECK_THAT(message([] { parse_layer_rule("words=exact:many"); }), Contains("exact: (a number of rows)"));
}

TEST_CASE("compress plan: the file contains every bond of a chain, and bonds may be edited") {
  io::Json json = plan_file(
      jobs_with({planned("up", PlannedForm::tt, {4, 4}, {4, 8}, 12), planned("down", PlannedForm::tt, {8, 4}, {16}, 8),
                 planned("words", PlannedForm::ttm, {10, 10}, {4, 4}, 7)}),
      0, 2.5);
  CHECK(json["layers"][0]["ranks"] == io::Json({1, 4, 12, 8, 1}));
  CHECK(json["layers"][1]["ranks"] == io::Json({1, 8, 8, 1}));
  CHECK(json["layers"][2]["ranks"] == io::Json({1, 7, 1}));
  json["layers"][0]["ranks"] = {1, 3, 9, 5, 1};
  json["layers"][1]["ranks"] = {1, 2, 8, 1};
  std::vector<LayerJob> edited = jobs();
  const double ratio = read_plan_file(io::json_text(json), "p.json", edited);
  CHECK(ratio == 2.5);
  CHECK(plan_file(edited, 0, ratio) == json);
  CHECK(edited[0].chain(0)->layout.ranks == io::FileShape{1, 3, 9, 5, 1});
  CHECK(planned_bytes(edited[1].sizes[0].plan, candidates()[1]) == 2 * (8 * 2 + 2 * 4 * 8 + 8 * (16 - 8)) + 4 * 8);
  const char* layer = R"({"name": "up", "form": "tt", "in_modes": [4, 4], "out_modes": [4, 8], "ranks": )";
  CHECK(refusal(std::string(layer) + "[1, 4, 12, 8, 1]}") == "accepted");
  CHECK_THAT(refusal(std::string(layer) + "[1, 4, 12, 1]}"), Contains("4 \"ranks\" came, but 4 cores have 5 bonds"));
  CHECK_THAT(refusal(std::string(layer) + "[1, 2, 12, 8, 1]}"), Contains("rank 12 at bond 2 exceeds 8"));
  CHECK_THAT(refusal(std::string(layer) + "[1, 4, 12, 9, 1]}"), Contains("rank 9 at bond 3 exceeds 8"));
  CHECK_THAT(refusal(std::string(layer) + "[2, 4, 12, 8, 1]}"), Contains("must be 1"));
  CHECK_THAT(refusal(std::string(layer) + "[1, 4, 12, 8, 1], \"rank\": 3}"), Contains("keep one"));
  CHECK_THAT(refusal(R"({"name": "up", "form": "lowrank", "ranks": [1, 3, 1]})"), Contains("has one bond"));
  CHECK_THAT(message([&] { read_plan_file(R"({"comera_plan": 1, "ratio": -1, "layers": []})", "p.json", edited); }),
             Contains("ratio"));
}

TEST_CASE("compress plan: a plan of 100,000 layers is read in less than a second") {
  constexpr std::size_t count = 100'000;
  std::vector<LayerJob> all;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = fmt::format("model.layers.{}.mlp.up_proj", i);
    all.push_back({.number = i, .candidate = linear(name.c_str(), 32, 16)});
    all.back().sizes.push_back({.plan = planned(name.c_str(), PlannedForm::lowrank, {}, {}, 1 + i % 8)});
  }
  const std::string text = io::json_text(plan_file(all, 0, 2.5));
  for (LayerJob& job : all) job.sizes.clear();
  const double start = cpu_seconds();
  CHECK(read_plan_file(text, "p.json", all) == 2.5);
  CHECK(cpu_seconds() - start < second());
  for (const LayerJob& job : all) REQUIRE(job.sizes.at(0).plan.rank == static_cast<std::int64_t>(1 + job.number % 8));
}

TEST_CASE("compress plan: bytes match the tensors that are written") {
  // 16 -> 32 at rank 8 with a gauge: factors of 16*8 + 8*(32-8), and 8 indices.
  CHECK(planned_bytes(planned("up", PlannedForm::lowrank, {}, {}, 8), candidates()[0]) ==
        2 * (16 * 8 + 8 * 24) + 4 * 8);
  CHECK(planned_bytes(planned("up", PlannedForm::lowrank, {}, {}, 8, false), candidates()[0]) == 2 * (16 * 8 + 8 * 32));
  // 4 x 4 in, 32 out at rank 8: 4*4 + 4*4*8 + 8*24.
  CHECK(planned_bytes(planned("up", PlannedForm::tt, {4, 4}, {32}, 8), candidates()[0]) ==
        2 * (16 + 128 + 192) + 4 * 8);
  CHECK(planned_bytes(planned("words", PlannedForm::lowrank, {}, {}, 3), candidates()[2]) == 4 * (100 * 3 + 3 * 16));
  CHECK(planned_bytes(planned("up", PlannedForm::keep_dense, {}, {}, 0), candidates()[0]) == 2 * 16 * 32);
}

TEST_CASE("compress plan: a wrong plan is an error that names the place") {
  CHECK(refusal(R"({"name": "up", "form": "lowrank", "rank": 3})") == "accepted");
  CHECK_THAT(refusal(R"({"name": "side", "form": "lowrank", "rank": 3})"),
             Contains("p.json: layers[0] (side)") && Contains("no such weight"));
  CHECK_THAT(refusal(R"({"name": "up", "form": "dense"}, {"name": "up", "form": "dense"})"), Contains("twice"));
  CHECK_THAT(refusal(R"({"name": "up", "form": "lowrank"})"), Contains("\"rank\""));
  CHECK_THAT(refusal(R"({"name": "up", "form": "lowrank", "rank": 17})"), Contains("not between 1 and 16"));
  CHECK_THAT(refusal(R"({"name": "up", "form": "cp", "rank": 1})"), Contains("no form 'cp'"));
  CHECK_THAT(refusal(R"({"name": "up", "form": "ttm", "rank": 1, "row_modes": [16, 1], "column_modes": [1, 32]})"),
             Contains("form of tables"));
  CHECK_THAT(refusal(R"({"name": "words", "form": "tt", "rank": 1, "in_modes": [100], "out_modes": [16]})"),
             Contains("form of linear"));
  CHECK_THAT(refusal(R"({"name": "up", "form": "tt", "rank": 1, "in_modes": [4, 5], "out_modes": [32]})"),
             Contains("multiply to 20 and 32"));
  CHECK_THAT(
      refusal(
          R"({"name": "up", "form": "tt", "rank": 1, "in_modes": [1099511627776, 1099511627776], "out_modes": [32]})"),
      Contains("multiply"));
  CHECK_THAT(refusal(R"({"name": "up", "shape": [16, 32], "form": "dense"})"), Contains("shape"));
  CHECK_THAT(refusal(R"({"name": "up", "form": "dense", "gauge": 1})"), Contains("gauge"));
  CHECK_THAT(refusal("1"), Contains("layers[0]: is not an object"));
}

TEST_CASE("compress plan: rules of --layer") {
  const LayerRule rule = parse_layer_rule("*query=form:tt;modes:24x16|384;rank:32;gauge:off");
  CHECK(rule.pattern == "*query");
  CHECK(rule.form == PlannedForm::tt);
  CHECK(rule.in_modes == io::FileShape{24, 16});
  CHECK(rule.out_modes == io::FileShape{384});
  CHECK(rule.rank == 32);
  CHECK(rule.gauge == false);
  for (const char* wrong :
       {"query", "=rank:3", "q=rank:0", "q=rank:x", "q=form:cp", "q=modes:4x4", "q=modes:4xy|3", "q=size:3"})
    CHECK_THROWS_AS(parse_layer_rule(wrong), InputError);
}

TEST_CASE("compress candidates: by architecture, by pattern, tied weights once") {
  const TemporaryFolder folder;
  write_model(folder, R"({"model_type": "bert"})",
              {{"bert.embeddings.word_embeddings.weight", {20, 8}},
               {"bert.embeddings.position_embeddings.weight", {20, 8}},
               {"bert.encoder.layer.0.attention.self.query.weight", {8, 8}},
               {"bert.encoder.layer.0.attention.output.LayerNorm.weight", {8}},
               {"bert.encoder.layer.0.output.dense.weight", {8, 16}},
               {"cls.predictions.decoder.weight", {20, 8}},
               {"classifier.weight", {3, 8}}});
  const std::vector<Candidate> all = find_candidates(io::ModelFolder(folder.path()), {});
  CHECK(names_of(all) == std::vector<std::string>{"bert.embeddings.word_embeddings",
                                                  "bert.encoder.layer.0.attention.self.query",
                                                  "bert.encoder.layer.0.output.dense"});
  CHECK(all[0].table);
  CHECK(all[0].tied == std::vector<std::string>{"cls.predictions.decoder.weight"});
  CHECK((all[2].in() == 16 && all[2].out() == 8));
  CHECK(names_of(find_candidates(io::ModelFolder(folder.path()), {{"*classifier"}, {}})) ==
        std::vector<std::string>{"classifier"});
  CHECK(find_candidates(io::ModelFolder(folder.path()), {{}, {"*word*", "*query.weight"}}).size() == 1);
  write_model(folder, R"({"model_type": "gpt2"})", {{"h.0.mlp.c_fc.weight", {8, 32}}, {"wpe.weight", {16, 8}}});
  const std::vector<Candidate> gpt2 = find_candidates(io::ModelFolder(folder.path()), {});
  REQUIRE(gpt2.size() == 1);
  CHECK((gpt2[0].conv1d && gpt2[0].in() == 8 && gpt2[0].out() == 32));
}

TEST_CASE("compress candidates: a decoder of words that is not tied is a table, for bits or by name") {
  const TemporaryFolder folder;
  const auto model = [&](const char* config) {
    write_model(folder, config,
                {{"lm_head.weight", {20, 8}},
                 {"model.embed_tokens.weight", {20, 8}},
                 {"model.layers.0.self_attn.q_proj.weight", {8, 8}}});
    return io::ModelFolder(folder.path());
  };
  const std::vector<std::string> without{"model.embed_tokens", "model.layers.0.self_attn.q_proj"};
  const Choice heads{.include = {}, .exclude = {}, .tables = {}, .heads = true};
  for (const char* untied :
       {R"({"model_type": "llama"})", R"({"model_type": "qwen2", "tie_word_embeddings": false})"}) {
    CHECK(names_of(find_candidates(model(untied), {})) == without);
    const std::vector<Candidate> all = find_candidates(model(untied), heads);
    REQUIRE(all.size() == 3);
    CHECK((all[0].name == "lm_head" && all[0].table && all[0].in() == 20 && all[0].out() == 8));
    CHECK(find_candidates(model(untied), {{"lm_head"}, {}})[0].table);
  }
  const char* tied = R"({"model_type": "llama", "tie_word_embeddings": true})";
  CHECK(names_of(find_candidates(model(tied), heads)) == without);
  const Candidate words = find_candidates(model(tied), heads)[0];
  CHECK(words.tied == std::vector<std::string>{"lm_head.weight"});
  CHECK((words.also_decodes && !words.decodes));
}

TEST_CASE("compress certificate: reads back to six digits and is never longer than planned") {
  std::vector<LayerOutcome> layers(2);
  layers[0].name = "up";
  layers[0].chain = chain_of(planned("up", PlannedForm::lowrank, {}, {}, 3), candidates()[0]);
  layers[0].weight_hash = layers[0].chain_hash = std::string(32, 'a');
  layers[0].rel_error = 0.123456789;
  layers[0].output_error = 1.0 / 3e7;
  layers[0].direction_error = 1.0 / 9e123;
  layers[1].name = "down";
  const MomentsInfo info{{"a.txt"}, std::string(32, 'b'), 100, 20};
  const std::string text = to_text(certificate_of(layers, info));
  CHECK(text.size() <= widest_certificate({"up"}, info).size());
  const Certificate again = parse_certificate(text, "f");
  REQUIRE(again.layers.size() == 1);
  CHECK(again.layers[0].rel_error == 0.123457);
  CHECK(again.layers[0].output_error == 3.33333e-8);
  CHECK(again.layers[0].direction_error == 1.11111e-124);
  CHECK(again.calibration->held_tokens == 20);
  CHECK_THAT(message([] { parse_certificate("{}", "f"); }), Contains("f: the certificate lacks \"version\""));
  CHECK_THAT(message([] { parse_certificate(R"({"version": 1, "layers": [{"name": 3}]})", "f"); }),
             Contains("\"name\" is 3"));
}
