// A decoder whose weights stay on grids gives the logits of the same decoder with these weights made dense.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <numeric>
#include <random>

#include "kernels/cuda/common/runtime.h"
#include "lib/engine/engine.h"
#include "lib/engine/generate.h"
#include "lib/engine/weights_file.h"
#include "lib/io/tt_format.h"
#include "lib/quant/rounding.h"
#include "models/architecture.h"
#include "tests/core/temporary_folder.h"

using namespace comera;
using quant::Grid;

namespace {

constexpr std::int64_t width = 64, inner = 100, words = 70, rank = 3;

const std::vector<std::int32_t> exact_words{0, 5, 11, 37, 69};

// One layer with 2 heads of 32 and one key head; every grid, with and without a correction. `table_rank`: of the
// correction of the table of words. With exact rows, which are far from the rows on the grid.
class DecoderOnGrids {
 public:
  explicit DecoderOnGrids(std::int64_t table_rank = 0, bool exact = false) {
    const std::string layer = "model.layers.0.";
    on_grid("model.embed_tokens", words, width, Grid::q4_0, true, table_rank);
    if (exact) {
      chains_[0].layout.exact_rows = std::ssize(exact_words);
      tensors_.push_back(
          {chains_[0].exact_ids_name(), io::StoredType::I32, {std::ssize(exact_words)}, exact_words.data()});
      floats(chains_[0].exact_rows_name(), {std::ssize(exact_words), width}, io::StoredType::F16);
    }
    on_grid(layer + "self_attn.q_proj", width, width, Grid::q3_0, false, rank);
    on_grid(layer + "self_attn.k_proj", width / 2, width, Grid::q8_0, false, 0);
    floats(layer + "self_attn.v_proj.weight", {width / 2, width});
    on_grid(layer + "self_attn.o_proj", width, width, Grid::q4_1, false, rank);
    on_grid(layer + "mlp.gate_proj", inner, width, Grid::q2_0, false, 0);
    floats(layer + "mlp.up_proj.weight", {inner, width});
    on_grid(layer + "mlp.down_proj", width, inner, Grid::q4_0, false, 0);
    for (const char* norm : {"model.norm", "model.layers.0.input_layernorm", "model.layers.0.post_attention_layernorm"})
      floats(std::string(norm) + ".weight", {width});
    io::Json config{{"model_type", "llama"},       {"hidden_size", width},     {"intermediate_size", inner},
                    {"num_hidden_layers", 1},      {"num_attention_heads", 2}, {"num_key_value_heads", 1},
                    {"vocab_size", words},         {"rms_norm_eps", 1e-5},     {"max_position_embeddings", 64},
                    {"tie_word_embeddings", true}, {"rope_theta", 10000.0},    {"bos_token_id", 1},
                    {"eos_token_id", 2},           {"hidden_act", "silu"},     {"architectures", {"LlamaForCausalLM"}}};
    config["comera"] = io::to_json(io::ComeraBlock{chains_, {}, {}});
    write_file_atomic(folder_ / "config.json", io::json_text(config));
    io::write_safetensors(folder_ / "model.safetensors", tensors_, io::weights_metadata());
  }

  std::string path() const { return folder_.path(); }

 private:
  std::vector<float>& floats(const std::string& name, const io::FileShape& shape,
                             io::StoredType type = io::StoredType::F32) {
    std::vector<float>& values = values_[name];
    std::normal_distribution<float> normal(0, name.ends_with("norm.weight") ? 1 : 0.2f);
    for (std::int64_t i = 0; i < io::elements_of(shape); ++i) values.push_back(normal(random_));
    tensors_.push_back({name, type, shape, values.data(), true});
    return values;
  }

  void on_grid(const std::string& name, std::int64_t rows, std::int64_t columns, Grid grid, bool table,
               std::int64_t correction) {
    io::ChainSpec chain;
    chain.name = name, chain.shape = {rows, columns}, chain.base = grid, chain.folded = true;
    chain.initial_ranks = {1, std::max<std::int64_t>(1, correction), 1};
    chain.layout = table ? tt::ttm_layout({rows, 1}, {1, columns}, {1, correction, 1})
                         : tt::tt_layout({columns}, {rows}, {1, correction, 1});
    chains_.push_back(chain);
    tt::Matrix weight(table ? rows : columns, table ? columns : rows);
    std::normal_distribution<double> normal(0, 0.2);
    for (double& value : weight.values) value = normal(random_);
    quant::Quantised& base = bases_[name] =
        table ? quant::round_table(weight, grid) : quant::round_linear(weight, grid);
    tensors_.push_back({chain.base_name(),
                        io::StoredType::U8,
                        {base.lines, quant::line_bytes(grid, base.numbers)},
                        base.bytes.data()});
    if (correction == 0) return;
    floats(chain.core_name(0), chain.layout.core_shape(0), io::StoredType::F16);
    floats(chain.core_name(1), chain.layout.core_shape(1), io::StoredType::F16);
  }

  TemporaryFolder folder_;
  std::mt19937 random_{7};
  std::map<std::string, std::vector<float>> values_;
  std::map<std::string, quant::Quantised> bases_;
  std::vector<io::ChainSpec> chains_;
  std::vector<io::TensorToWrite> tensors_;
};

// The logits behind each of some tokens: all of a text at once, then those behind a prompt at once, then one token
// after the other.
std::vector<double> logits_of(const std::string& folder, const plan::Machine& machine, bool on_grids) {
  models::ModelSpec spec = models::spec_from_folder(folder);
  CHECK(models::common(spec).on_grids.size() == 6);
  if (on_grids) models::run_on_grids(spec);
  engine::Engine engine(machine, models::factory_of(spec, machine.dtype), {});
  engine::check_weights(folder, engine.model());
  engine.allocate();
  engine::load_weights(folder, engine.weights());
  engine.weights_changed();
  engine.open_cache(1, 32);
  data::Ids ids(20);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i * 37 % words);
  data::Batch batch;
  engine::fill_generation_batch(batch, ids, 0, 0);
  auto every = batch.add("logit_rows", DType::i32, {std::ssize(ids)}).as<std::int32_t>();
  std::iota(every.begin(), every.end(), 0);
  const std::span<const double> at_once = engine.evaluate(batch).logits;
  std::vector<double> all(at_once.begin(), at_once.end());
  for (std::int64_t known = 0; std::ssize(ids) < 26;) {
    batch = {};
    engine::fill_generation_batch(batch, ids, known, 32);
    const engine::Scores scores = engine.decode(batch);
    all.insert(all.end(), scores.logits.begin(), scores.logits.end());
    known = std::ssize(ids);
    ids.push_back(static_cast<std::int32_t>(known * 11 % words));
  }
  return all;
}

double largest(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

}  // namespace

TEST_CASE("on_grids: weights on grids give the logits of dense weights") {
  const auto [table_rank, exact] = GENERATE(table<std::int64_t, bool>({{0, false}, {0, true}, {3, false}, {3, true}}));
  const DecoderOnGrids decoder(table_rank, exact);
  const plan::Machine reference{&kernels::reference_backend(), DType::f64, nullptr};
  const std::vector<double> truth = logits_of(decoder.path(), reference, false);
  REQUIRE(truth.size() == 26 * words);
  const double size = largest(truth, std::vector<double>(truth.size()));
  CHECK(size > 0.1);
  // Dense weights are rounded to float after their correction was added.
  CHECK(largest(logits_of(decoder.path(), reference, true), truth) < 2e-6 * size);

  const char* error = nullptr;
  const kernels::Backend* cpu = kernels::cpu_backend("auto", &error);
  REQUIRE(cpu);
  for (const plan::Machine machine : {plan::Machine{cpu, DType::f32, nullptr}, plan::Machine{cpu, DType::bf16, nullptr},
                                      plan::Machine{&kernels::cuda::table(), DType::f32, nullptr}}) {
    const double dense_error = largest(logits_of(decoder.path(), machine, false), truth);
    const double grid_error = largest(logits_of(decoder.path(), machine, true), truth);
    INFO(machine.backend->name << ": dense " << dense_error << ", on grids " << grid_error);
    CHECK(grid_error < 4 * dense_error);
  }
}

TEST_CASE("on_grids: the model counts the parameters of its dense form") {
  const DecoderOnGrids decoder(0, GENERATE(false, true));
  models::ModelSpec spec = models::spec_from_folder(decoder.path());
  const std::int64_t dense = models::make_model(spec, DType::f32)->parameters_dense();
  models::run_on_grids(spec);
  CHECK(models::make_model(spec, DType::f32)->parameters_dense() == dense);
}
