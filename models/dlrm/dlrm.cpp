#include "models/dlrm/dlrm.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "kernels/bags.h"
#include "lib/core/error.h"
#include "lib/data/clicks/click_block.h"
#include "lib/data/random.h"
#include "lib/layers/embedding.h"
#include "lib/layers/interaction.h"
#include "lib/layers/linear.h"
#include "lib/layers/logistic.h"
#include "models/dlrm/dlrm_config.h"

namespace comera::models {
namespace {

using kernels::Activation;
using layers::Builder;
using layers::LinearSet;
using layers::Outputs;
using layers::Pass;
using layers::SavePolicy;
using layers::Sink;
using layers::Tensor;
using layers::Value;
using layers::Walk;

// Linear layers with ReLU; the last one without it if `open`.
class Mlp {
 public:
  Mlp(Builder& builder, const DlrmSpec& spec, const std::vector<MlpLayer>& layers, bool open) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const bool last = i + 1 == layers.size();
      inputs_.push_back(layers[i].in);
      layers_.push_back(LinearSet::make(builder, {spec.linear(layers[i].name, layers[i].out)}, layers[i].in,
                                        last && open ? Activation::none : Activation::relu));
    }
  }

  // Drops x if `own`. The caller drops the result.
  Tensor forward(Pass& pass, Tensor x, bool own) {
    Value value{x, nullptr};
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      Tensor y;
      layers_[i].forward(pass, value, &y);
      if (i > 0 || own) pass.walk.drop(value.tensor);
      value = {y, layers_[i].producer()};
    }
    return value.tensor;
  }

  // Takes ownership of dy. Returns the gradient of the first layer's input if `wanted`.
  Tensor backward(Pass& pass, Sink& sink, Tensor dy, bool wanted) {
    for (std::size_t i = layers_.size(); i-- > 0;) {
      Tensor dx;
      if (i > 0 || wanted) dx = pass.walk.make("dx", {pass.sequences, inputs_[i]});
      layers_[i].backward(pass, sink, &dy, dx, false);
      dy = dx;
    }
    return dy;
  }

 private:
  std::vector<LinearSet> layers_;
  std::vector<std::int64_t> inputs_;
};

// The table of a column and the inputs of its look-ups.
class Bag {
 public:
  Bag(Builder& builder, const DlrmSpec& spec, std::size_t index)
      : column_(spec.inputs.categories[index]), names_(column_.column), columns_(spec.hidden) {
    layers::TableSpec table;
    table.name = table_name(index);
    table.rows = column_.rows, table.columns = spec.hidden;
    table.deviation = table_deviation(column_.rows);
    table.form = spec.form_of(table.name);
    table_ = layers::make_table(builder, table);
  }

  layers::Table& table() { return *table_; }

  void declare(const data::Batch& batch, plan::Inputs& inputs) {
    inputs.add(batch[names_.ids.c_str()], ids_);
    if (column_.is_bag()) inputs.add(batch[names_.offsets.c_str()], offsets_);
    if (column_.weighs()) inputs.add(batch[names_.weights.c_str()], weights_);
  }

  Tensor forward(Pass& pass) {
    Tensor y = pass.walk.make("embedding", {pass.sequences, columns_});
    table_->forward(pass.walk, bags(pass), y, false);
    return y;
  }
  // Takes ownership of dy.
  void backward(Pass& pass, Sink& sink, Tensor& dy) {
    table_->backward(pass.walk, sink, bags(pass), dy);
    pass.walk.drop(dy);
  }

 private:
  kernels::Bags bags(const Pass& pass) const {
    return {.bags = pass.sequences,
            .ids = pass.sequences * column_.most,
            .id = static_cast<const std::int32_t*>(ids_.data),
            .offsets = static_cast<const std::int32_t*>(offsets_.data),
            .period = 0,
            .weights = static_cast<const float*>(weights_.data)};
  }

  data::CategoryColumn column_;
  data::BagNames names_;
  std::int64_t columns_;
  std::unique_ptr<layers::Table> table_;
  Tensor ids_, offsets_, weights_;  // inputs
};

class Dlrm final : public layers::Model {
 public:
  Dlrm(const DlrmSpec& spec, DType dtype)
      : Model(dtype),
        spec_(spec),
        dtype_(dtype),
        merger_(chains_, factors_, step_gradients_),
        builder_{dtype,   parameters_,   chains_,    factors_,         step_gradients_,
                 merger_, cast_weights_, threshold_, parameters_dense_},
        bottom_(builder_, spec, bottom_layers(spec), false),
        interaction_(spec.hidden) {
    for (std::size_t i = 0; i < spec.inputs.categories.size(); ++i) bags_.emplace_back(builder_, spec, i);
    top_.emplace(builder_, spec, top_layers(spec), true);
  }

  void declare_constants(plan::Inputs& inputs) override {
    for (Bag& bag : bags_) bag.table().declare(inputs);
    merger_.declare(inputs);
  }

  // The numbers in the activation dtype.
  void declare(const data::Batch& batch, plan::Inputs& inputs) override {
    const auto given = batch["dense"].as<const float>();
    numbers_.resize(given.size() * size_of(dtype_));
    const TensorView view{numbers_.data(), dtype_, {batch.sequences, spec_.numbers()}};
    for (std::size_t i = 0; i < given.size(); ++i)
      layers::store({view.data, view.dtype, view.shape, -1}, static_cast<std::int64_t>(i), given[i]);
    inputs.add(view, dense_);
    inputs.add(batch["samples"], samples_);
    for (Bag& bag : bags_) bag.declare(batch, inputs);
    loss_.declare(batch["labels"], inputs);
  }

  data::Batch planning_batch(std::int64_t sequences, std::int64_t, double) const override {
    data::Batch batch;
    data::shape_click_batch(spec_.inputs, sequences, batch);
    batch.counted = sequences;
    const auto dense = batch["dense"].as<float>();
    for (std::size_t i = 0; i < dense.size(); ++i) dense[i] = static_cast<float>(i % 7) / 4;
    const auto labels = batch["labels"].as<std::int32_t>();
    const auto samples = batch["samples"].as<std::int64_t>();
    for (std::size_t b = 0; b < labels.size(); ++b) labels[b] = b % 4 == 0, samples[b] = static_cast<std::int64_t>(b);
    for (std::size_t i = 0; i < spec_.inputs.categories.size(); ++i) fill_column(i, batch);
    return batch;
  }

  void prepare(Walk& walk) override {
    Walk::Scope scope(walk, "prepare");
    for (Bag& bag : bags_) bag.table().prepare(walk);
    merger_.prepare(walk, threshold_);
    cast_weights_.prepare(walk);
  }

  Outputs forward(Walk& walk, const data::Batch& batch, const SavePolicy& policy) override {
    pass_.emplace(Pass{walk, policy, batch.sequences, batch.length, &state_->scalars,
                       static_cast<const std::int64_t*>(samples_.data), &distillation_});
    Pass& pass = *pass_;
    Tensor logits = top_->forward(pass, interact(pass), true);
    loss_.forward(pass, *state_, logits);
    if (policy.saves()) return logits_ = logits, Outputs{};
    pass_.reset();
    return {logits, {}};
  }

  void backward(Walk& walk, Sink& sink) override {
    Pass& pass = *pass_;
    loss_.backward(pass, logits_);
    std::vector<Tensor> d = interaction_.backward(pass, top_->backward(pass, sink, logits_, true));
    {
      Walk::Scope scope(walk, "embeddings");
      for (std::size_t i = 0; i < bags_.size(); ++i) bags_[i].backward(pass, sink, d[i + 1]);
    }
    bottom_.backward(pass, sink, d[0], false);
    pass_.reset();
  }

  void finish(Walk& walk, Sink& sink) override {
    Walk::Scope scope(walk, "finish");
    for (Bag& bag : bags_) bag.table().finish(walk, sink);
    merger_.finish(walk, sink, threshold_);
  }

  std::string config_json() const override { return to_config_json(spec_, *this); }

 private:
  // Full bags of rows whose logarithms are uniform, like clicks on rows that are sorted by frequency (Zipf's law).
  void fill_column(std::size_t index, data::Batch& batch) const {
    const data::CategoryColumn& column = spec_.inputs.categories[index];
    const data::BagNames names(column.column);
    const data::Random random(index, 0, data::Purpose::sample);
    const auto ids = batch[names.ids.c_str()].as<std::int32_t>();
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const double share = random.draw(i).word[0] / 4294967296.0;
      ids[i] = static_cast<std::int32_t>(std::pow(static_cast<double>(column.rows), share)) - 1;
    }
    if (column.is_bag()) {
      const auto offsets = batch[names.offsets.c_str()].as<std::int32_t>();
      for (std::size_t b = 0; b < offsets.size(); ++b)
        offsets[b] = static_cast<std::int32_t>(b) * static_cast<std::int32_t>(column.most);
    }
    if (column.weighs()) std::ranges::fill(batch[names.weights.c_str()].as<float>(), 1.0F);
  }

  Tensor interact(Pass& pass) {
    std::vector<Tensor> vectors{bottom_.forward(pass, dense_, false)};
    Walk::Scope scope(pass.walk, "embeddings");
    for (Bag& bag : bags_) vectors.push_back(bag.forward(pass));
    return interaction_.forward(pass, std::move(vectors));
  }

  DlrmSpec spec_;
  DType dtype_;
  layers::TtMerger merger_;
  Builder builder_;
  Mlp bottom_;
  layers::Interaction interaction_;
  std::vector<Bag> bags_;
  std::optional<Mlp> top_;
  layers::Logistic loss_;
  std::optional<Pass> pass_;
  std::vector<std::byte> numbers_;
  Tensor dense_, samples_;  // inputs
  Tensor logits_;
};

}  // namespace

std::unique_ptr<layers::Model> make_dlrm(const DlrmSpec& spec, DType dtype) {
  check(spec);
  return std::make_unique<Dlrm>(spec, dtype);
}

}  // namespace comera::models
