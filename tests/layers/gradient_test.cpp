// Gradients of single layers by the complex step: the layer runs in complex numbers, and the imaginary part of its
// outputs under a perturbation of 1e-20 i is the derivative.
#include <catch2/catch.hpp>
#include <complex>
#include <cstring>

#include "lib/layers/activations/directions.h"
#include "lib/layers/activations/projected.h"
#include "lib/layers/activations/quantised.h"
#include "lib/layers/attention.h"
#include "lib/layers/gated.h"
#include "lib/layers/linear.h"
#include "lib/layers/norm.h"
#include "lib/layers/training/direction.h"
#include "lib/layers/training/subspace.h"
#include "lib/tt/matrix.h"
#include "tests/layers/walks.h"

using namespace comera;
using layers::Pass;
using layers::Tensor;
using layers::Walk;

namespace {

using Complex = std::complex<double>;
using Tensors = std::vector<Tensor>;

constexpr std::int64_t sequences = 2, length = 3, tokens = sequences * length;
constexpr double step = 1e-20;

// A layer with the tensors that it takes and gives, all [tokens, columns].
class Layer {
 public:
  virtual ~Layer() = default;
  virtual std::vector<std::int64_t> inputs() const = 0;  // columns
  virtual Tensors forward(Pass& pass, Tensors& x) = 0;   // takes x
  virtual Tensors backward(Pass& pass, layers::Sink& sink, Tensors& dy) = 0;
};
using MakeLayer = std::function<std::unique_ptr<Layer>(layers::Builder&)>;

class Linears final : public Layer {
 public:
  Linears(layers::Builder& builder, const std::vector<layers::LinearSpec>& specs, std::int64_t in,
          kernels::Activation activation)
      : in_(in), set_(layers::LinearSet::make(builder, specs, in, activation)), outputs_(specs.size()) {}
  std::vector<std::int64_t> inputs() const override { return {in_}; }
  Tensors forward(Pass& pass, Tensors& x) override {
    Tensors y(outputs_);
    set_.forward(pass, {x[0], nullptr}, y.data());
    pass.walk.drop(x[0]);
    return y;
  }
  Tensors backward(Pass& pass, layers::Sink& sink, Tensors& dy) override {
    Tensor dx = pass.walk.make("dx", {tokens, in_});
    set_.backward(pass, sink, dy.data(), dx, false);
    return {dx};
  }

 private:
  std::int64_t in_;
  layers::LinearSet set_;
  std::size_t outputs_;
};

class Norm final : public Layer {
 public:
  Norm(layers::Builder& builder, kernels::NormKind kind) : norm_(builder, "norm", 5, {kind, 1e-3, 0, 0}) {}
  std::vector<std::int64_t> inputs() const override { return {5, 5}; }
  Tensors forward(Pass& pass, Tensors& x) override {
    const layers::Value y = norm_.forward(pass, x[0], x[1]);
    pass.walk.drop(x[1]);
    return {y.tensor};
  }
  Tensors backward(Pass& pass, layers::Sink& sink, Tensors& dy) override {
    Tensor dx;
    Tensor d_sum = norm_.backward(pass, sink, dy[0], {}, &dx);
    return {dx, d_sum};
  }

 private:
  layers::ResidualNorm norm_;
};

class Gate final : public Layer {
 public:
  explicit Gate(layers::Builder&) : gated_("gate", kernels::Activation::silu) {}
  std::vector<std::int64_t> inputs() const override { return {4, 4}; }
  Tensors forward(Pass& pass, Tensors& x) override { return {gated_.forward(pass, x[0], x[1]).tensor}; }
  Tensors backward(Pass& pass, layers::Sink&, Tensors& dy) override {
    Tensors dx(2);
    gated_.backward(pass, dy[0], dx[0], dx[1]);
    return dx;
  }

 private:
  layers::Gated gated_;
};

// Two query heads share one key head.
class Heads final : public Layer {
 public:
  explicit Heads(layers::Builder& builder) : attention_(builder, "heads", {2, 1, 3, 0}) {}
  std::vector<std::int64_t> inputs() const override { return {6, 3, 3}; }
  Tensors forward(Pass& pass, Tensors& x) override {
    return {attention_.forward(pass, x[0], x[1], x[2], {}, {}).tensor};
  }
  Tensors backward(Pass& pass, layers::Sink&, Tensors& dy) override {
    Tensors dx(3);
    attention_.backward(pass, dy[0], dx[0], dx[1], dx[2]);
    return dx;
  }

 private:
  layers::Attention attention_;
};

double weight_of(std::size_t output, std::int64_t i) { return std::cos(1.0 + 3.0 * output + 0.7 * i); }

// Loss: the sum of all outputs times weight_of().
template <class T>
class Run {
 public:
  explicit Run(const MakeLayer& make, layers::Keeper& keeper = layers::exact_keeper()) : keeper_(keeper) {
    layers::Builder builder{dtype,   parameters,    chains_,    factors_, step_gradients_,
                            merger_, cast_weights_, threshold_, dense_};
    layer_ = make(builder);
    for (layers::Parameter& parameter : parameters.all())
      if (parameter.place != layers::Place::other) keeper.declare(parameter, parameter.name);
    sink_ = layers::make_accumulate_sink(parameters, step_gradients_);
    const auto bind = [&](auto& slab) { slab.bind(memory_.emplace_back(slab.bytes() / sizeof(T) + 16).data()); };
    bind(parameters);
    bind(factors_);
    bind(cast_weights_.copies());
    bind(step_gradients_);
    for (layers::Parameter& parameter : parameters.all())
      if (layers::Direction* direction = parameter.direction.get())
        direction->vector = {
            memory_.emplace_back(static_cast<std::size_t>(direction->size)).data(), dtype, {direction->size}, -1};
    parameters.initialise(3);
    std::size_t k = 0;
    for (layers::Parameter& parameter : parameters.all())
      for (std::int64_t i = 0; i < parameter.shape.elements(); ++i)
        static_cast<T*>(parameter.value.data)[i] += 0.2 * std::sin(static_cast<double>(i + 5 * k++));
    for (const std::int64_t columns : layer_->inputs()) {
      std::vector<T>& x = inputs.emplace_back(static_cast<std::size_t>(tokens * columns));
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(0.9 * static_cast<double>(i + 31 * inputs.size()));
    }
  }

  // Also the gradients of inputs and parameters, if the layer runs its backward.
  T loss(bool backward) {
    T sum{};
    walk_twice(dtype, [&](Walk& walk) {
      if (backward) sink_->begin(walk);
      cast_weights_.prepare(walk);
      merger_.prepare(walk, threshold_);
    });
    walk_twice(dtype, [&](Walk& walk) {
      keeper_.begin(&scalars_);
      Pass pass{walk, layers::SavePolicy(layers::Recompute::cheap, true, keeper_), sequences, length};
      Tensors x;
      for (const std::vector<T>& values : inputs) {
        x.push_back(walk.make("x", {tokens, static_cast<std::int64_t>(values.size()) / tokens}));
        if (walk.computes()) std::memcpy(x.back().data, values.data(), x.back().bytes());
      }
      if (!backward) pass.policy = pass.policy.discarding();
      Tensors y = layer_->forward(pass, x), dy;
      for (std::size_t o = 0; o < y.size(); ++o) {
        for (std::int64_t i = 0; walk.computes() && i < y[o].elements(); ++i)
          sum += weight_of(o, i) * static_cast<const T*>(y[o].data)[i];
        if (backward) dy.push_back(walk.make("dy", y[o].shape));
        for (std::int64_t i = 0; backward && walk.computes() && i < y[o].elements(); ++i)
          static_cast<T*>(dy[o].data)[i] = weight_of(o, i);
        walk.drop(y[o]);
      }
      if (!backward) return;
      walk.backward_begins();
      Tensors dx = layer_->backward(pass, *sink_, dy);
      d_inputs.clear();
      for (Tensor& tensor : dx) {
        const T* data = static_cast<const T*>(tensor.data);
        if (walk.computes()) d_inputs.emplace_back(data, data + tensor.elements());
        walk.drop(tensor);
      }
    });
    if (backward)
      walk_twice(dtype, [&](Walk& walk) {
        merger_.finish(walk, *sink_, threshold_);
        d_parameters.clear();
        for (const layers::Parameter& parameter : parameters.all()) {
          const T* data = static_cast<const T*>(sink_->gradient(parameter).data);
          if (walk.computes()) d_parameters.emplace_back(data, data + parameter.gradient_shape().elements());
        }
        sink_->release(walk);
      });
    return sum;
  }

  static constexpr DType dtype = std::is_same_v<T, double> ? DType::f64 : DType::c128;
  layers::Parameters parameters{dtype};
  std::vector<std::vector<T>> inputs, d_inputs, d_parameters;

 private:
  kernels::StepScalars scalars_{.seed = 5};
  layers::Keeper& keeper_;
  std::vector<layers::ChainParameters> chains_;
  plan::Slab factors_, step_gradients_;
  layers::TtMerger merger_{chains_, factors_, step_gradients_};
  layers::CastWeights cast_weights_{dtype};
  double threshold_ = 0.01;
  std::int64_t dense_ = 0;
  std::deque<std::vector<T>> memory_;
  std::unique_ptr<Layer> layer_;
  std::unique_ptr<layers::Sink> sink_;
};

void check(const char* name, const MakeLayer& make) {
  INFO(name);
  Run<double> real(make);
  real.loss(true);
  Run<Complex> perturbed(make);
  const auto derivative = [&](Complex& value) {
    const Complex before = value;
    value += Complex(0, step);
    const double slope = perturbed.loss(false).imag() / step;
    value = before;
    return slope;
  };
  const auto near = [](double a, double b) { return std::abs(a - b) <= 1e-10 * std::max(1.0, std::abs(b)); };
  REQUIRE(real.d_inputs.size() == real.inputs.size());
  for (std::size_t k = 0; k < real.inputs.size(); ++k)
    for (std::size_t i = 0; i < real.inputs[k].size(); ++i)
      CHECK(near(real.d_inputs[k][i], derivative(perturbed.inputs[k][i])));
  std::size_t k = 0;
  for (layers::Parameter& parameter : perturbed.parameters.all()) {
    INFO(parameter.name);
    for (std::int64_t i = 0; i < parameter.shape.elements(); ++i)
      CHECK(near(real.d_parameters[k][static_cast<std::size_t>(i)],
                 derivative(static_cast<Complex*>(parameter.value.data)[i])));
    ++k;
  }
}

layers::LinearSpec tt_spec(const char* name, std::int64_t out, tt::Layout layout) {
  return {.name = name, .out = out, .form = layers::chain_form(std::move(layout))};
}

}  // namespace

TEST_CASE("a low-rank layer with an activation between its factors is act(between(x A D) B + b)") {
  layers::LinearSpec spec = tt_spec("pair", 5, tt::tt_layout({6}, {5}, {1, 2, 1}));
  spec.form.between = kernels::Activation::silu;
  Run<double> run([&](auto& builder) {
    return std::make_unique<Linears>(builder, std::vector{spec}, 6, kernels::Activation::tanh);
  });
  const auto at = [&](const char* name, std::int64_t i) { return layers::load(run.parameters.find(name)->value, i); };
  double wanted = 0;
  for (std::int64_t t = 0; t < tokens; ++t) {
    double h[2];
    for (std::int64_t r = 0; r < 2; ++r) {
      double t1 = 0;
      for (std::int64_t i = 0; i < 6; ++i)
        t1 += run.inputs[0][static_cast<std::size_t>(6 * t + i)] * at("pair.tt.0", 2 * i + r) * at("pair.rank.0", r);
      h[r] = t1 / (1 + std::exp(-t1));
    }
    for (std::int64_t o = 0; o < 5; ++o)
      wanted += weight_of(0, 5 * t + o) *
                std::tanh(h[0] * at("pair.tt.1", o) + h[1] * at("pair.tt.1", 5 + o) + at("pair.bias", o));
  }
  CHECK(std::abs(run.loss(false) - wanted) < 1e-13);
}

// A gradient of v is a sum of gradients of outputs, each times a probability: two query heads and three tokens read a
// key. An int4 copy moves a score of some hundreds by more than ten, so against the sums of the exact scores a
// probability would be thousands.
TEST_CASE("attention on restored queries and keys has probabilities of at most 1") {
  const auto keeper = layers::make_quantised_keeper({.bits = 4});
  Run<double> run([](auto& builder) { return std::make_unique<Heads>(builder); }, *keeper);
  for (double& q : run.inputs[0]) q *= 40;
  for (double& k : run.inputs[1]) k *= 10;
  run.loss(true);
  double largest = 0;
  for (const double d : run.d_inputs[2]) largest = std::max(largest, std::abs(d));
  CHECK(largest <= 2 * 3);
  CHECK(largest > 0.1);
}

TEST_CASE("gradients of linear layers, dense and in tensor-train form, alone and with a shared input") {
  using kernels::Activation;
  const layers::LinearSpec dense{.name = "dense", .out = 4},
      chain = tt_spec("chain", 6, tt::tt_layout({2, 3}, {3, 2}, {1, 2, 3, 2, 1})),
      pair = tt_spec("pair", 5, tt::tt_layout({6}, {5}, {1, 2, 1}));
  for (const Activation activation : {Activation::none, Activation::gelu}) {
    check("dense",
          [&](auto& builder) { return std::make_unique<Linears>(builder, std::vector{dense}, 6, activation); });
    check("chain",
          [&](auto& builder) { return std::make_unique<Linears>(builder, std::vector{chain}, 6, activation); });
    for (const Activation between : {Activation::silu, Activation::gelu, Activation::tanh})
      check("bottleneck", [&](auto& builder) {
        layers::LinearSpec spec = pair;
        spec.form.between = between;
        return std::make_unique<Linears>(builder, std::vector{spec, chain}, 6, activation);
      });
    check("all", [&](auto& builder) {
      return std::make_unique<Linears>(builder, std::vector{chain, dense, pair}, 6, activation);
    });
  }
}

namespace {

// P^T g, or P P^T g, for g [6, columns].
std::vector<double> projected(const kernels::Sketch& sketch, const std::vector<double>& g, bool back) {
  const kernels::StepScalars scalars{.seed = 5};
  std::vector<double> p(static_cast<std::size_t>(sketch.inputs * sketch.rank));
  kernels::reference_backend().draw_sketch.run({.dtype = DType::f64},
                                               {.sketch = sketch, .scalars = &scalars, .p = p.data()});
  const tt::Matrix matrix(sketch.inputs, sketch.rank, p), gradient(sketch.inputs, std::ssize(g) / sketch.inputs, g),
      within = tt::multiply_tn(matrix, gradient);
  return (back ? tt::multiply(matrix, within) : within).values;
}

void check_near(const std::vector<double>& found, const std::vector<double>& wanted) {
  REQUIRE(found.size() == wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(std::abs(found[i] - wanted[i]) <= 1e-12);
}

// The runs of a layer with exact and with projected inputs. Gradients of parameters that are not estimated have equal
// bits. The first of the estimated ones is `weight`.
struct Pair {
  Run<double> exact, estimated;
  std::size_t weight = 0;

  Pair(const MakeLayer& make, layers::Keeper& keeper, const std::vector<std::string>& names)
      : exact(make), estimated(make, keeper) {
    CHECK(exact.loss(true) == estimated.loss(true));
    CHECK(exact.d_inputs == estimated.d_inputs);
    std::size_t k = 0;
    for (const layers::Parameter& parameter : exact.parameters.all()) {
      if (parameter.name == names[0]) weight = k;
      const bool is_estimated = std::find(names.begin(), names.end(), parameter.name) != names.end();
      if (!is_estimated) CHECK(exact.d_parameters[k] == estimated.d_parameters[k]);
      ++k;
    }
  }
};

}  // namespace

TEST_CASE("projected inputs: a dense weight has the gradient P^T G, and all other gradients keep their bits") {
  const auto keeper = layers::make_projected_keeper({.rank = 3});
  for (const kernels::Activation activation : {kernels::Activation::none, kernels::Activation::gelu}) {
    const auto make = [&](layers::Builder& builder) {
      const layers::LinearSpec spec{.name = "dense", .out = 4, .place = layers::Place::block};
      return std::make_unique<Linears>(builder, std::vector{spec}, 6, activation);
    };
    const Pair pair(make, *keeper, {"dense.weight"});
    const layers::Parameter& weight = pair.estimated.parameters.all()[pair.weight];
    REQUIRE(weight.subspace);
    check_near(pair.estimated.d_parameters[pair.weight],
               projected(weight.subspace->sketch, pair.exact.d_parameters[pair.weight], false));
  }
}

// x is restored as <z, v> v for groups z of 3 inputs, v the mean of all groups, of length 1.
TEST_CASE(
    "inputs as products with a vector: a dense weight has the gradient of the restored inputs, all others keep their "
    "bits") {
  const auto keeper = layers::make_direction_keeper({.group = 3, .scale = 0.5}, "velora");
  const auto make = [](layers::Builder& builder) {
    const layers::LinearSpec spec{.name = "dense", .out = 4, .place = layers::Place::block};
    return std::make_unique<Linears>(builder, std::vector{spec}, 6, kernels::Activation::none);
  };
  const Pair pair(make, *keeper, {"dense.weight"});
  const tt::Matrix x(tokens * 2, 3, pair.exact.inputs[0]);
  tt::Matrix v(3, 1);
  for (std::int64_t i = 0; i < x.rows; ++i)
    for (std::int64_t j = 0; j < 3; ++j) v(j, 0) += x(i, j);
  const double length = std::sqrt(tt::squared_norm(v));
  for (double& one : v.values) one /= length;
  tt::Matrix g(tokens, 4);
  for (std::int64_t i = 0; i < tokens * 4; ++i) g.values[static_cast<std::size_t>(i)] = 0.5 * weight_of(0, i);
  const tt::Matrix restored = tt::reshaped(tt::multiply_nt(tt::multiply(x, v), v), tokens, 6);
  check_near(pair.estimated.d_parameters[pair.weight], tt::multiply_tn(restored, g).values);
}

TEST_CASE("projected inputs: a chain has P P^T G for its first factor, and all other gradients keep their bits") {
  for (const kernels::SketchKind kind :
       {kernels::SketchKind::normal, kernels::SketchKind::orthonormal, kernels::SketchKind::count}) {
    const auto keeper = layers::make_projected_keeper({.kind = kind, .rank = 3, .refresh = 50});
    const auto make = [&](layers::Builder& builder) {
      layers::LinearSpec spec = tt_spec("pair", 5, tt::tt_layout({6}, {5}, {1, 2, 1}));
      spec.place = layers::Place::block;
      return std::make_unique<Linears>(builder, std::vector{spec}, 6, kernels::Activation::gelu);
    };
    const Pair pair(make, *keeper, {"pair.tt.0", "pair.rank.0"});
    const std::vector<double>& exact = pair.exact.d_parameters[pair.weight];
    // The site of a sketch is the low half of FNV-1a of the layer's name.
    const kernels::Sketch sketch{.kind = kind, .inputs = 6, .rank = 3, .site = 0xEB889A31u};
    check_near(pair.estimated.d_parameters[pair.weight], projected(sketch, exact, true));
  }
}

TEST_CASE("gradients of norms with a residual, of gates and of attention") {
  check("LayerNorm", [](auto& builder) { return std::make_unique<Norm>(builder, kernels::NormKind::layer); });
  check("RMSNorm", [](auto& builder) { return std::make_unique<Norm>(builder, kernels::NormKind::rms); });
  check("gate", [](auto& builder) { return std::make_unique<Gate>(builder); });
  check("attention", [](auto& builder) { return std::make_unique<Heads>(builder); });
}
