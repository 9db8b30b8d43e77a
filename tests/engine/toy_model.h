// A model small enough for the reference backend: a TTM table for the first token, a TT layer with GELU and dropout,
// and a dense classifier.
#pragma once

#include <cstring>
#include <random>

#include "kernels/bags.h"
#include "kernels/elementwise.h"
#include "lib/data/loader.h"
#include "lib/layers/embedding.h"
#include "lib/layers/linear.h"
#include "lib/layers/loss.h"

namespace toy {

using namespace comera;
using layers::Pass;
using layers::Tensor;

constexpr std::int64_t vocabulary = 24, labels = 3;

// The spec of a table with the columns "text" and "label".
inline data::DataSpec data_spec() {
  data::DataSpec spec;
  spec.text = {"text"};
  spec.label = "label";
  spec.max_length = 16;
  return spec;
}

struct Options {
  std::int64_t rank = 6;
  bool dense = false;
  double dropout = 0.1;
  bool wide = false;  // 48 -> 64 instead of 12 -> 16
};

// Sequences `first` .. `first + count` of an endless corpus whose label depends on the first token.
inline data::Batch batch(std::int64_t first, std::int64_t count, std::int64_t length = 8) {
  data::Batch batch;
  batch.sequences = batch.counted = count;
  batch.length = length;
  batch.tokens = count * length;
  const auto ids = batch.add("input_ids", DType::i32, {count, length}).as<std::int32_t>();
  const auto types = batch.add("token_type_ids", DType::i32, {count, length}).as<std::int32_t>();
  const auto lengths = batch.add("lengths", DType::i32, {count}).as<std::int32_t>();
  const auto samples = batch.add("samples", DType::i64, {count}).as<std::int64_t>();
  const auto targets = batch.add("labels", DType::i32, {count}).as<std::int32_t>();
  for (std::int64_t b = 0; b < count; ++b) {
    std::mt19937 random(static_cast<unsigned>(first + b));
    for (std::int64_t t = 0; t < length; ++t)
      ids[b * length + t] = static_cast<std::int32_t>(random() % vocabulary), types[b * length + t] = 0;
    lengths[b] = static_cast<std::int32_t>(length);
    samples[b] = first + b;
    targets[b] = ids[b * length] * 7 % 5 % labels;
  }
  return batch;
}

class ToyModel final : public layers::Model {
 public:
  ToyModel(DType dtype, const Options& options, const layers::RankTable& ranks)
      : Model(dtype),
        width(options.wide ? 48 : 12),
        hidden(options.wide ? 64 : 16),
        dropout_(options.dropout),
        merger_(chains_, factors_, step_gradients_) {
    layers::Builder builder{dtype,   parameters_,   chains_,    factors_,         step_gradients_,
                            merger_, cast_weights_, threshold_, parameters_dense_};
    const std::int64_t r = options.rank;
    layers::TableSpec table;
    table.name = "table", table.rows = vocabulary, table.columns = width;
    if (!options.dense) {
      const tt::Sizes columns = options.wide ? tt::Sizes{4, 3, 4} : tt::Sizes{2, 2, 3};
      table.form = layers::chain_form(tt::ttm_layout({2, 3, 4}, columns, {1, 4, r, 1}));
      if (ranks.contains("table")) table.form.layout.ranks = ranks.at("table");
    }
    table_ = layers::make_table(builder, table);
    layers::LinearSpec up, down;
    up.name = "up", up.out = hidden, up.place = layers::Place::block;
    down.name = "down", down.out = labels;
    if (!options.dense) {
      const tt::Sizes in = options.wide ? tt::Sizes{6, 8} : tt::Sizes{3, 4},
                      out = options.wide ? tt::Sizes{8, 8} : tt::Sizes{4, 4};
      up.form = layers::chain_form(tt::tt_layout(in, out, {1, in[0], r, out[1], 1}));
      if (ranks.contains("up")) up.form.layout.ranks = ranks.at("up");
    }
    up_ = layers::LinearSet::make(builder, {up}, width, kernels::Activation::gelu);
    site_ = builder.dropout_site();
    down_ = layers::LinearSet::make(builder, {down}, hidden, kernels::Activation::none);
    first_.reserve(4096);
  }

  void declare_constants(plan::Inputs& inputs) override {
    table_->declare(inputs);
    merger_.declare(inputs);
  }

  void declare(const data::Batch& batch, plan::Inputs& inputs) override {
    first_.resize(static_cast<std::size_t>(batch.sequences));
    for (std::size_t b = 0; b < first_.size(); ++b)
      first_[b] = batch["input_ids"].as<std::int32_t>()[b * static_cast<std::size_t>(batch.length)];
    inputs.add(first_, first_ids_);
    inputs.add(batch["labels"], targets_);
    inputs.add(batch["samples"], samples_);
  }

  data::Batch planning_batch(std::int64_t sequences, std::int64_t length, double) const override {
    return toy::batch(0, sequences, length);
  }

  void prepare(layers::Walk& walk) override {
    table_->prepare(walk);
    merger_.prepare(walk, threshold_);
    cast_weights_.prepare(walk);
  }

  layers::Outputs forward(layers::Walk& walk, const data::Batch& batch, const layers::SavePolicy& policy) override {
    Pass pass = pass_of(walk, batch, policy);
    ids_ = {batch.sequences, batch.sequences, static_cast<const std::int32_t*>(first_ids_.data), nullptr};
    Tensor x = walk.make("x", {batch.sequences, width});
    table_->forward(walk, ids_, x, false);
    Tensor h;
    up_.forward(pass, {x}, &h);
    walk.drop(x);
    apply_dropout(pass, h);
    layers::Outputs outputs;
    down_.forward(pass, {h}, &outputs.logits);
    walk.drop(h);
    loss_ = {};
    loss_.add(pass, outputs.logits, 0, targets_);
    outputs.best = loss_.finish(pass, *state_, targets_);
    if (!policy.saves()) {
      loss_.release(pass);
      return outputs;
    }
    logits_ = outputs.logits;
    walk.drop(outputs.best);
    pass_ = {batch.sequences, batch.length, pass.samples};
    return {};
  }

  void backward(layers::Walk& walk, layers::Sink& sink) override {
    Pass pass{
        walk,         layers::SavePolicy(layers::Recompute::none), pass_.sequences, pass_.length, &state_->scalars,
        pass_.samples};
    loss_.backward(pass, logits_, 0, targets_);
    loss_.release(pass);
    Tensor dh = walk.make("dh", {pass.sequences, hidden}), dx = walk.make("dx", {pass.sequences, width});
    down_.backward(pass, sink, &logits_, dh, false);
    apply_dropout(pass, dh);
    up_.backward(pass, sink, &dh, dx, false);
    table_->backward(walk, sink, ids_, dx);
    walk.drop(dx);
  }

  void finish(layers::Walk& walk, layers::Sink& sink) override {
    table_->finish(walk, sink);
    merger_.finish(walk, sink, threshold_);
  }

  std::string config_json() const override { return "{\"model_type\": \"toy\"}"; }

 private:
  struct Shape {
    std::int64_t sequences = 0, length = 0;
    const std::int64_t* samples = nullptr;
  };

  Pass pass_of(layers::Walk& walk, const data::Batch& batch, const layers::SavePolicy& policy) {
    return {walk, policy, batch.sequences, 1, &state_->scalars, static_cast<const std::int64_t*>(samples_.data)};
  }
  void apply_dropout(Pass& pass, Tensor& tensor) {
    if (!pass.policy.training()) return;
    pass.walk.run(pass.backend().dropout, kernels::DropoutApply{pass.dropout(dropout_, site_, 1), pass.sequences,
                                                                tensor.shape[1], tensor.data, tensor.data});
  }

  std::int64_t width, hidden;
  double dropout_;
  std::uint32_t site_ = 0;
  layers::TtMerger merger_;
  std::unique_ptr<layers::Table> table_;
  layers::LinearSet up_, down_;
  layers::CrossEntropy loss_;
  std::vector<std::int32_t> first_;
  kernels::Bags ids_;
  Tensor first_ids_, samples_, targets_;  // inputs
  Tensor logits_;
  Shape pass_;
};

inline layers::ModelFactory factory(DType dtype, const Options& options = {}) {
  return [=](const layers::RankTable& ranks) { return std::make_unique<ToyModel>(dtype, options, ranks); };
}

}  // namespace toy
