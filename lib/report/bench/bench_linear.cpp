// Benches of single linear layers, declared in lib/report/bench/bench_layer.h.
#include "lib/layers/linear.h"
#include "lib/report/bench/bench_layer.h"

namespace comera::report {
namespace {

using layers::Tensor;

class LinearAlone final : public LayerAlone {
 public:
  LinearAlone(const plan::Machine& machine, const LinearBench& bench, std::int64_t tokens)
      : LayerAlone(machine), in_(bench.in), out_(bench.out), tokens_(tokens) {
    layers::Builder build = builder();
    layers::LinearSpec spec{"layer", bench.out, bench.form};
    set_ = layers::LinearSet::make(build, {spec}, bench.in, kernels::Activation::none);
    take_memory();
  }

  void tokens(layers::Walk& walk, int set) override {
    const Set& data = sets_[static_cast<std::size_t>(set)];
    layers::Pass pass{walk, layers::SavePolicy(layers::Recompute::none), 1, tokens_};
    Tensor y, gradient = data.dy;
    set_.forward(pass, {data.x, nullptr}, &y);
    walk.drop(y);
    walk.backward_begins();
    set_.backward(pass, *sink_, &gradient, data.dx, false);
  }

  std::size_t set_bytes() const override {
    return 2 * plan::aligned(bytes(tokens_ * in_)) + plan::aligned(bytes(tokens_ * out_));
  }

  void make_sets(int sets) override {
    sets_.clear();
    data_ = plan::Arena();
    data_ = plan::Arena(*machine_.backend, static_cast<std::size_t>(sets) * set_bytes(), "the tokens of the layer");
    for (int i = 0; i < sets; ++i) {
      char* base = static_cast<char*>(data_.data()) + static_cast<std::size_t>(i) * set_bytes();
      const std::size_t x_bytes = plan::aligned(bytes(tokens_ * in_));
      sets_.push_back({{base, machine_.dtype, {tokens_, in_}},
                       {base + x_bytes, machine_.dtype, {tokens_, in_}},
                       {base + 2 * x_bytes, machine_.dtype, {tokens_, out_}}});
      fill(sets_.back().x, 2 * i + 1), fill(sets_.back().dy, 2 * i + 2);
    }
  }

  // X, Y, dY, dX and the weights of the products in the activation dtype, and the gradients of the weights.
  double moved_bytes() const override {
    return static_cast<double>(bytes(2 * tokens_ * (in_ + out_)) +
                               static_cast<std::size_t>(weights()) *
                                   (bytes(1) + size_of(kernels::parameter_type(machine_.dtype))));
  }
  double least_flops(double) const override { return 6.0 * static_cast<double>(tokens_ * weights()); }

 protected:
  void prepare(layers::Walk& walk) override {
    merger_.prepare(walk, threshold_);
    cast_weights_.prepare(walk);
  }
  void finish(layers::Walk& walk) override { merger_.finish(walk, *sink_, threshold_); }

 private:
  struct Set {
    Tensor x, dx, dy;
  };
  // Elements of the left and right factor without padded ranks, or of W.
  std::int64_t weights() const {
    if (!has_cores()) return in_ * out_;
    const tt::Layout& layout = chains_.front().layout;
    return layout.ranks[layout.middle()] * (in_ + out_);
  }
  std::size_t bytes(std::int64_t elements) const {
    return static_cast<std::size_t>(elements) * size_of(machine_.dtype);
  }

  std::int64_t in_, out_, tokens_;
  layers::LinearSet set_;
  plan::Arena data_;
  std::vector<Set> sets_;
};

}  // namespace

BenchReport bench_linear(const plan::Machine& machine, const LinearBench& bench, const BenchOptions& options) {
  const engine::MemoryMeter memory(machine);
  LinearAlone layer(machine, bench, options.batch * options.length);
  return bench_layer(layer, memory, options);
}

}  // namespace comera::report
