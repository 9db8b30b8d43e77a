// `comera pretrain`.
#include <fmt/core.h>

#include <algorithm>

#include "lib/core/error.h"
#include "models/model_options.h"
#include "models/presets.h"
#include "tools/clicks.h"
#include "tools/images.h"
#include "tools/regression.h"
#include "tools/training.h"
#include "tools/verbs.h"

namespace comera::tools {

namespace {

// Best rates for random weights, measured by recipes/learning_rates.sh; docs/results/training.md has the grid.
constexpr const char* dense_rate = "5e-4";
constexpr const char* chain_rate = "0.002";
constexpr const char* uniform_rate = "0.001";  // of a model in TT form with --core-rates uniform
// Tables of models of words, as multiples of --lr or --lr-cores, measured there too.
struct TableRate {
  double times, most;  // unless --lr or --lr-cores is larger
};
constexpr TableRate tables_of_dense{60, 3e-2}, tables_of_chains{5, 1e-2};

Option weight_norm_decay() {
  return {.name = "weight-norm-decay",
          .type = OptionType::real,
          .default_text = "1",
          .group = "Training",
          .help =
              "decay of the norm of weights in TT or low-rank form with AdamW, apart from the gradient: their large "
              "singular values shrink most; 0: --weight-decay of their cores, which shrinks all singular values alike",
          .result_relevant = true,
          .minimum = 0};
}

std::vector<Option> training_options() {
  std::vector<Option> rows = train::training_options();
  for (Option& option : rows) {
    if (option.name == "lr")
      option.default_text = "",
      option.default_words = fmt::format("{} with --form dense, {} with --core-rates uniform, else {}", dense_rate,
                                         uniform_rate, chain_rate);
    if (option.name == "lr-cores")
      option.default_text = chain_rate,
      option.default_words = fmt::format("{}; {} if uniform", chain_rate, uniform_rate);
    if (option.name == "lr-table-cores")
      option.default_words = "5 times that of --lr-cores, up to 1e-2; for dlrm and vit that of --lr-cores";
    if (option.name == "lr-tables")
      option.default_words =
          "5 times that of --lr, up to 1e-2; with --form dense 60 times, up to 3e-2; for dlrm and vit that of --lr";
    if (option.name == "optimizer") option.default_words = "muon with --form tt or lowrank, else adamw";
    if (option.name == "warmup") option.default_text = "", option.default_words = "5 % of the steps";
  }
  add_core_rates(rows,
                 "by the core's shape, so that every core moves its linear weight by the same share, whatever modes, "
                 "ranks and order are");
  const auto decay =
      std::find_if(rows.begin(), rows.end(), [](const Option& row) { return row.name == "weight-decay"; });
  rows.insert(decay + 1, weight_norm_decay());
  return rows;
}

template <class Spec>
bool has_spec(const OptionValues& values) {
  return std::holds_alternative<Spec>(models::find_preset(values.text("model")).spec);
}

void settle_training(OptionValues& values) {
  if (!recipe_to_resume(values)) train::settle_optimizer(values);
  const char* of_chains = values.text("core-rates") == "uniform" ? uniform_rate : chain_rate;
  if (!values.given("lr"))
    values.set("lr", values.text("form") == "dense" ? dense_rate : of_chains, OptionSource::fallback);
  if (!values.given("lr-cores")) values.set("lr-cores", of_chains, OptionSource::fallback);
  if (!has_spec<models::EncoderSpec>(values) && !has_spec<models::DecoderSpec>(values)) return;
  const auto settle = [&](const char* name, const char* other, const TableRate& of) {
    const double rate = values.real(other);
    if (values.given(name)) return;
    values.set(name, format_real(std::max(rate, std::min(of.times * rate, of.most))), OptionSource::fallback);
  };
  settle("lr-tables", "lr", values.text("form") == "dense" ? tables_of_dense : tables_of_chains);
  settle("lr-table-cores", "lr-cores", tables_of_chains);
}

// --form auto is for --fit.
std::vector<Option> model_options() {
  std::vector<Option> rows = models::model_options();
  for (Option& option : rows)
    if (option.name == "form") option.choices.emplace_back("auto"), option.help += "; auto: --fit chooses it";
  return rows;
}

// The plan of a decoder without data assumes its only task.
data::Task task_without_word(const OptionValues& values) {
  if (values.flag("dry-run") && !values.has("data") && has_spec<models::DecoderSpec>(values)) return data::Task::clm;
  return task_of_labels(values, {});
}

}  // namespace

OptionTable pretrain_table() {
  OptionTable table(
      "pretrain",
      "train a model in tensor-train form; with a target size, ranks are cut on a schedule until the model has "
      "that size");
  table.add(train::data_options()).add(model_options()).add(training_options()).add(train::rank_options());
  add_run_options(table);
  table
      .only_with({"form=tt|lowrank|auto", "embedding-form=tt|lowrank", "layer"},
                 {"rank", "embedding-rank", "modes", "lr-ranks", "lr-table-cores", "core-rates", "tau", "gamma", "beta",
                  "rank-penalty", "prune-every"})
      .only_with({"embedding-form=preset|same|tt|lowrank", "layer"}, {"embedding-rank", "lr-table-cores"})
      .only_with({"form=tt|lowrank|auto"}, {"tt-rows", "tt-entries"})
      .only_with({"form=tt|auto", "layer"}, {"order", "embedding-order"});
  table.synonyms({"train", "training", "learn", "fit"});
  table.common({"task", "data", "dev", "text", "label", "tokenizer", "model", "rank", "steps", "output"});
  table.example(
      "comera pretrain --model encoder-small --form tt --rank 16 --data train.tsv --dev dev.tsv --text "
      "premise,hypothesis "
      "--tokenizer vocab.txt --steps 2000 --batch 32 -o run");
  table.example("comera pretrain --model dlrm-small --schema criteo --data train.tsv --steps 1000 --batch 1024 -o run");
  table.example("comera pretrain --model vit-mini --data train-images-idx3-ubyte.gz --epochs 3 -o run");
  return table.example("comera pretrain --resume run")
      .example("comera pretrain --model mnli-6enc --batch 32 --seq 128 --dry-run");
}

int run_pretrain(const OptionValues& given) {
  OptionValues values = given;
  settle_clicks(values);
  settle_images(values);
  complete_repeated(values);
  settle_training(values);
  if (values.text("task") == "embed")
    fail_input("[pretrain] embeddings are learned from a teacher; use comera finetune MODEL --teacher DENSE");
  if (!values.given("task") && !learns_clicks(values) && !learns_images(values) && !recipe_to_resume(values))
    values.set("task", data::name_of(task_without_word(values)), OptionSource::fallback);
  if (values.flag("dry-run")) {
    RunSetup setup = setup_without_data(values, settle_training);
    return plan_run(values, setup);
  }
  return train_and_report(values, set_up_run(values, settle_training));
}

}  // namespace comera::tools
