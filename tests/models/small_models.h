// Small models with a fixed batch, run by the reference backend or a given one.
#pragma once

#include <catch2/catch.hpp>
#include <complex>
#include <cstring>
#include <vector>

#include "kernels/host/cpu_backend.h"
#include "lib/layers/training/sink.h"
#include "lib/tt/modes.h"
#include "models/architecture.h"
#include "models/forms.h"
#include "models/presets.h"
#include "tests/models/small_batch.h"

inline comera::models::EncoderSpec small_encoder(bool pre_norm, comera::models::Task task, comera::models::Form form,
                                                 std::int64_t hidden = 8, std::int64_t intermediate = 12) {
  using namespace comera;
  models::EncoderSpec spec;
  spec.vocabulary = 23;
  spec.hidden = hidden;
  spec.layers = 2;
  spec.heads = 2;
  spec.intermediate = intermediate;
  spec.positions = 8;
  spec.pre_norm = pre_norm;
  spec.task = task;
  spec.labels = task == models::Task::regression ? std::vector<std::string>{models::regression_label}
                                                 : std::vector<std::string>{"a", "b", "c"};
  apply_small_forms(spec, form);
  return spec;
}

// The same encoder in chains of all the shapes that tensorize makes.
inline comera::models::EncoderSpec tensorized_encoder(bool pre_norm, comera::models::Task task) {
  using namespace comera;
  models::EncoderSpec spec = small_encoder(pre_norm, task, models::Form::tt);
  const models::EncoderNames names(spec);
  struct Options {
    bool folded, sorted, gauge;
  };
  const auto set = [&](const std::string& name, const tt::Sizes& in, const tt::Sizes& out, const tt::Sizes& ranks,
                       const Options& options) {
    layers::WeightForm& form = spec.forms[name] = layers::chain_form(tt::tt_layout(in, out, ranks), options.folded);
    form.layout.sorted = options.sorted;
    form.layout.gauge = options.gauge;
  };
  spec.forms[names.word].folded = true;
  spec.forms[names.word].layout.exact_rows = 9;
  for (std::int64_t i = 0; i < spec.layers; ++i) {
    set(names.layer(i, names.query), {2, 4}, {8}, {1, 2, 3, 1}, {true, true, true});
    set(names.layer(i, names.key), {8}, {8}, {1, 4, 1}, {true, false, true});
    set(names.layer(i, names.value), {2, 2, 2}, {8}, {1, 2, 3, 5, 1}, {true, true, false});
    set(names.layer(i, names.attention_output), {8}, {2, 4}, {1, 4, 3, 1}, {true, false, false});
    set(names.layer(i, names.up), {4, 2}, {3, 4}, {1, 4, 6, 4, 1}, {false, true, false});
    set(names.layer(i, names.down), {12}, {8}, {1, 3, 1}, {true, true, true});
  }
  return spec;
}

inline comera::models::EncoderSpec small_mpnet(comera::models::Task task, comera::models::Form form) {
  using namespace comera;
  models::EncoderSpec spec = small_encoder(false, task, models::Form::dense);
  spec.family = models::EncoderFamily::mpnet;
  spec.types = 0, spec.pad = 1;
  apply_small_forms(spec, form);
  return spec;
}

// A ModernBERT with a window of two keys on each side in its second block, and every dropout that it may have.
inline comera::models::EncoderSpec small_modernbert(comera::models::Task task, comera::models::Form form,
                                                    bool biases = false) {
  using namespace comera;
  models::EncoderSpec spec = small_encoder(true, task, models::Form::dense);
  spec.family = models::EncoderFamily::modernbert;
  spec.types = 0, spec.head_dropout = 0.2;
  spec.modern = {.theta = 100, .near_theta = 10, .reach = 2, .windowed = {false, true}};
  spec.modern.attention_bias = spec.modern.mlp_bias = spec.modern.norm_bias = spec.modern.head_bias = biases;
  if (biases && data::learns_labels(task)) spec.classifier_pooling = kernels::Pooling::mean;
  apply_small_forms(spec, form);
  return spec;
}

// Two key heads for four query heads. The heads do not fill the width.
inline comera::models::DecoderSpec small_decoder(comera::models::Form form, bool tied, std::int64_t exact = 0) {
  using namespace comera;
  models::DecoderSpec spec;
  spec.vocabulary = 23;
  spec.hidden = 12;
  spec.layers = 2;
  spec.heads = 4;
  spec.key_heads = 2;
  spec.head_size = 4;
  spec.intermediate = 10;
  spec.positions = 8;
  spec.theta = 100;
  spec.tied = tied;
  spec.attention_dropout = 0.2;
  apply_small_forms(spec, form);
  if (exact > 0) spec.forms[models::DecoderNames::word].layout.exact_rows = exact;
  return spec;
}

// A GPT-2 with heads of an odd size and every dropout.
inline comera::models::DecoderSpec small_gpt2(comera::models::Form form, bool tied) {
  using namespace comera;
  models::DecoderSpec spec;
  spec.family = models::DecoderFamily::gpt2;
  spec.vocabulary = 23;
  spec.hidden = 12;
  spec.layers = 2;
  spec.heads = spec.key_heads = 4;
  spec.head_size = 3;
  spec.intermediate = 10;
  spec.positions = 8;
  spec.tied = tied;
  spec.dropout = 0.1, spec.attention_dropout = 0.2, spec.embedding_dropout = 0.3;
  apply_small_forms(spec, form);
  return spec;
}

// Two numbers; a single category, a sum, a mean and a bag of one with values; ten rows for chains of three cores.
inline comera::models::DlrmSpec small_dlrm(comera::models::Form form) {
  using namespace comera;
  models::DlrmSpec spec;
  spec.hidden = 8;
  spec.bottom = {5}, spec.top = {6, 4};
  for (const char* name : {"a", "b"}) spec.inputs.dense.emplace_back().column = name;
  for (const char* name : {"one", "sum", "mean", "weighted"}) {
    data::CategoryColumn& column = spec.inputs.categories.emplace_back();
    column.column = name;
    column.rows = 10;
    column.most = column.column == "sum" || column.column == "mean" ? 3 : 1;
    column.mean = column.column == "mean";
    column.weighted = column.column == "weighted";
  }
  models::FormRules rules;
  rules.form = form;
  rules.rank = rules.embedding_rank = 3;
  rules.order = 2, rules.embedding_order = 3;
  rules.least_entries = 24;  // the first layer has two inputs, and no bond of rank 3
  models::apply_forms(spec, models::weight_sites(spec), rules);
  return spec;
}

// Computes loss and gradients of one step in T = float, double or complex<double>, by default on the reference
// backend.
template <class T>
class ReferenceRun {
 public:
  explicit ReferenceRun(const comera::models::ModelSpec& spec,
                        const comera::kernels::Backend& backend = comera::kernels::reference_backend())
      : ReferenceRun(comera::models::make_model(spec, dtype), small_batch(spec), backend) {}

  // Runs any model on the given batch.
  ReferenceRun(std::unique_ptr<comera::layers::Model> any, comera::data::Batch of_any,
               const comera::kernels::Backend& backend = comera::kernels::reference_backend())
      : backend_(backend),
        batch(std::move(of_any)),
        model(std::move(any)),
        sink(comera::layers::make_accumulate_sink(model->parameters(), model->step_gradients())) {
    using namespace comera;
    weights = bound(model->parameters().bytes());
    model->parameters().bind(weights.data());
    model->parameters().initialise(11);
    // Diagonals at 1 and biases at 0 would hide errors.
    for (layers::Parameter& parameter : model->parameters().all())
      if (parameter.init.distribution == layers::Init::Distribution::constant)
        for (std::int64_t i = 0; i < parameter.shape.elements(); ++i)
          layers::store(parameter.value, i,
                        parameter.init.scale + 0.3 * std::sin(static_cast<double>(i + parameter.index)));
    // Some permutation and some gauge columns.
    for (layers::ChainParameters& chain : model->chains()) {
      for (std::size_t p = 0; p < chain.order.size(); ++p)
        chain.order[p] = static_cast<std::int32_t>((5 * p + 1) % chain.order.size());
      for (std::size_t r = 0; r < chain.gauge.size(); ++r)
        chain.gauge[r] = static_cast<std::int32_t>((3 * r + 2) % static_cast<std::size_t>(chain.rows));
    }
    factors = bound(model->factors().bytes());
    model->factors().bind(factors.data());
    gradients = bound(model->step_gradients().bytes());
    model->step_gradients().bind(gradients.data());
    state.scalars.seed = 5;
    state.scalars.loss_scale = 1.0 / static_cast<double>(batch.counted);
    model->set_state(&state);
  }

  // Loss of a training forward (dropout on) that saves nothing.
  T loss() {
    reset();
    walk([&](comera::plan::Walk& w) { model->prepare(w); });
    walk([&](comera::plan::Walk& w) {
      auto outputs = model->forward(w, batch, comera::layers::SavePolicy(comera::layers::Recompute::none).discarding());
      outputs.drop(w);
    });
    if constexpr (std::is_same_v<T, double>)
      return state.loss[0];
    else
      return T(state.loss[0], state.loss[1]);
  }

  // Outputs of an evaluation.
  std::vector<double> logits() { return evaluated(&comera::layers::Outputs::logits); }
  std::vector<double> embedding() { return evaluated(&comera::layers::Outputs::embedding); }

  void step(comera::layers::Recompute recompute) { step(comera::layers::SavePolicy(recompute)); }
  void step(const comera::layers::SavePolicy& policy) {
    using namespace comera;
    reset();
    walk([&](plan::Walk& w) {
      sink->begin(w);
      model->prepare(w);
    });
    walk([&](plan::Walk& w) {
      model->forward(w, batch, policy);
      w.backward_begins();
      model->backward(w, *sink);
    });
    walk([&](plan::Walk& w) {
      model->finish(w, *sink);
      if (!w.recording()) copy_gradients();
      sink->release(w);
    });
  }

  double gradient(int parameter, std::int64_t index) const { return real(copies[parameter][index]); }
  const std::vector<std::vector<T>>& all_gradients() const { return copies; }

  static constexpr comera::DType dtype = std::is_same_v<T, float>    ? comera::DType::f32
                                         : std::is_same_v<T, double> ? comera::DType::f64
                                                                     : comera::DType::c128;

 private:
  const comera::kernels::Backend& backend_;

 public:
  comera::data::Batch batch;
  std::unique_ptr<comera::layers::Model> model;
  std::unique_ptr<comera::layers::Sink> sink;
  comera::layers::StepState state;

 private:
  std::vector<double> evaluated(comera::plan::Tensor comera::layers::Outputs::*which) {
    reset();
    std::vector<double> numbers;
    walk([&](comera::plan::Walk& w) { model->prepare(w); });
    walk([&](comera::plan::Walk& w) {
      auto outputs = model->forward(w, batch, comera::layers::SavePolicy(comera::layers::Recompute::none, false));
      const comera::plan::Tensor& tensor = outputs.*which;
      if (!w.recording())
        for (std::int64_t i = 0; i < tensor.elements(); ++i) numbers.push_back(comera::layers::load(tensor, i));
      outputs.drop(w);
    });
    return numbers;
  }

  static double real(const T& value) { return std::real(value); }
  // Has room for the alignment of tensors in an arena.
  static std::vector<T> bound(std::size_t bytes) { return std::vector<T>(bytes / sizeof(T) + 16); }

  void reset() {
    state.loss[0] = state.loss[1] = state.correct = 0;
    inputs.clear();
    model->declare_constants(inputs);
    model->declare(batch, inputs);
    inputs.bind_to_host();
  }

  template <class Steps>
  void walk(const Steps& steps) {
    using namespace comera;
    const plan::Machine machine{&backend_, dtype, nullptr};
    plan::Plan table;
    {
      plan::Walk record(machine, table);
      steps(record);
      record.end();
    }
    plan::Arena arena(backend_, table.bytes, "test");
    std::memset(arena.data(), 0xff, table.bytes);
    plan::Walk replay(machine, table, arena.data());
    replay.set_poison(true);
    steps(replay);
    replay.end();
  }

  void copy_gradients() {
    copies.clear();
    for (const auto& parameter : model->parameters().all()) {
      const comera::plan::Tensor gradient = sink->gradient(parameter);
      const T* data = static_cast<const T*>(gradient.data);
      copies.emplace_back(data, data + (gradient.empty() ? 0 : gradient.elements()));
    }
  }

  comera::plan::Inputs inputs;
  std::vector<T> weights, factors, gradients;
  std::vector<std::vector<T>> copies;
};

// The first, the last and two entries between, so that every parameter is tested in a short time.
inline std::vector<std::int64_t> sample_entries(const comera::layers::Parameter& parameter) {
  const std::int64_t count = parameter.shape.elements();
  std::vector<std::int64_t> entries;
  for (const std::int64_t index : {std::int64_t{0}, count / 3, count / 2, count - 1})
    if (entries.empty() || entries.back() != index) entries.push_back(index);
  return entries;
}

using Gradients = std::vector<std::vector<double>>;

inline double norm(const Gradients& gradients) {
  double sum = 0;
  for (const auto& gradient : gradients)
    for (const double x : gradient) sum += x * x;
  return std::sqrt(sum);
}

inline double distance(const std::vector<std::vector<float>>& a, const Gradients& b) {
  double sum = 0;
  for (std::size_t p = 0; p < b.size(); ++p)
    for (std::size_t i = 0; i < b[p].size(); ++i) sum += (a[p][i] - b[p][i]) * (a[p][i] - b[p][i]);
  return std::sqrt(sum);
}

// Compares sampled gradients of a finished step with the complex step of an equal model. Reports errors above 1e-10.
struct Comparison {
  double worst = 0, largest = 0;  // the largest relative difference, the largest gradient
};
inline Comparison compare_with_complex_step(ReferenceRun<double>& real, ReferenceRun<std::complex<double>>& complex) {
  using namespace comera;
  Comparison seen;
  for (layers::Parameter& parameter : complex.model->parameters().all()) {
    if (parameter.fixed) continue;
    for (const std::int64_t index : sample_entries(parameter)) {
      auto& entry = static_cast<std::complex<double>*>(parameter.value.data)[index];
      const std::complex<double> before = entry;
      entry += std::complex<double>(0, 1e-40);
      const double expected = complex.loss().imag() / 1e-40;
      entry = before;
      const double found = real.gradient(parameter.index, index);
      const double error = std::abs(found - expected) / (1e-3 + std::abs(expected));
      seen.worst = std::max(seen.worst, error);
      seen.largest = std::max(seen.largest, std::abs(found));
      if (error > 1e-10) FAIL_CHECK(parameter.name << "[" << index << "]: " << found << " instead of " << expected);
    }
  }
  return seen;
}

inline double check_complex_step(const comera::models::ModelSpec& spec) {
  ReferenceRun<double> real(spec);
  real.step(comera::layers::Recompute::none);
  ReferenceRun<std::complex<double>> complex(spec);
  return compare_with_complex_step(real, complex).worst;
}

inline void check_recompute_bits(const comera::models::ModelSpec& spec) {
  using namespace comera;
  ReferenceRun<double> none(spec), cheap(spec), block(spec);
  none.step(layers::Recompute::none);
  cheap.step(layers::Recompute::cheap);
  block.step(layers::Recompute::block);
  CHECK(none.state.loss[0] == cheap.state.loss[0]);
  CHECK(none.state.loss[0] == block.state.loss[0]);
  CHECK(none.all_gradients() == cheap.all_gradients());
  CHECK(none.all_gradients() == block.all_gradients());
}

// Calls body(name, backend) for every instruction set of this machine. Warns about the skipped ones.
template <class Body>
void for_every_instruction_set(Body&& body) {
  for (const char* isa : comera::kernels::cpu_isas) {
    const char* error = nullptr;
    if (const comera::kernels::Backend* cpu = comera::kernels::cpu_backend(isa, &error))
      body(isa, *cpu);
    else
      WARN("skipped: " << error);
  }
}

// Measures the error of single precision: the reference in float against the reference in double. The fast kernels may
// have four times that error.
inline void check_single_precision(const comera::models::ModelSpec& spec, const comera::kernels::Backend& cpu) {
  using namespace comera;
  ReferenceRun<double> truth(spec);
  ReferenceRun<float> plain(spec), fast(spec, cpu);
  truth.step(layers::Recompute::none);
  plain.step(layers::Recompute::none);
  fast.step(layers::Recompute::none);
  const std::vector<std::vector<float>> none = fast.all_gradients();
  const double plain_error = distance(plain.all_gradients(), truth.all_gradients());
  INFO("plain single precision is off by " << plain_error << " of " << norm(truth.all_gradients()));
  CHECK(distance(none, truth.all_gradients()) <= 4 * plain_error);
  fast.step(layers::Recompute::cheap);
  CHECK(fast.all_gradients() == none);
  fast.step(layers::Recompute::block);
  CHECK(fast.all_gradients() == none);
}
