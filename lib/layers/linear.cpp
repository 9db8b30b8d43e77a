#include "lib/layers/linear.h"

#include <cmath>
#include <numeric>

#include "kernels/tt_linear.h"
#include "lib/core/error.h"

namespace comera::layers {

double linear_deviation(std::int64_t in, std::int64_t out) { return std::sqrt(1.0 / static_cast<double>(in + out)); }

LinearSpec correction_of(LinearSpec spec) {
  spec.form.storage = Storage::chain;
  spec.bias = false;
  return spec;
}

Parameter* add_bias(Builder& builder, const LinearSpec& spec) {
  if (!spec.bias) return nullptr;
  Parameter bias;
  bias.name = spec.name + ".bias";
  bias.shape = {spec.out};
  bias.init = {Init::Distribution::uniform, 1 / std::sqrt(static_cast<double>(spec.out))};
  return builder.add(std::move(bias));
}

// Order and gauge are arbitrary until the real ones are loaded.
ChainParameters chain_parameters(const LinearSpec& spec, std::int64_t in) {
  ChainParameters chain;
  chain.name = spec.name;
  chain.rows = spec.out, chain.columns = in;
  chain.layout = spec.form.layout;
  chain.initial_ranks = spec.form.initial_ranks;
  chain.between = spec.form.between;
  chain.folded = spec.form.folded;
  chain.conv1d = spec.conv1d;
  if (chain.layout.gauge) {
    COMERA_CHECK(chain.folded && chain.layout.cores() == chain.layout.inputs() + 1);
    chain.gauge.resize(static_cast<std::size_t>(chain.layout.ranks[chain.layout.middle()]));
  }
  if (chain.layout.sorted) chain.order.resize(static_cast<std::size_t>(chain.columns));
  std::iota(chain.gauge.begin(), chain.gauge.end(), 0);
  std::iota(chain.order.begin(), chain.order.end(), 0);
  return chain;
}

Tensor Linear::backward_replacing(Pass& pass, Sink& sink, Tensor* dy, std::int64_t in) {
  Tensor dx = pass.walk.make("dx", {pass.tokens(), in});
  backward(pass, sink, dy, dx, false);
  return dx;
}

namespace {

// Wide factors that are brief are in memory for one weight at a time.
bool stands_alone(const Builder& builder, const LinearSpec& spec, std::int64_t in) {
  constexpr std::int64_t wide = std::int64_t{1} << 22;  // numbers of both factors
  const tt::Layout& layout = spec.form.layout;
  return builder.brief_factors && !layout.empty() && layout.ranks[layout.middle()] * (in + spec.out) >= wide;
}

}  // namespace

LinearSet LinearSet::make(Builder& builder, const std::vector<LinearSpec>& specs, std::int64_t in,
                          kernels::Activation activation) {
  LinearSet set;
  std::vector<LinearSpec> chains;
  std::vector<int> chain_outputs;
  for (int i = 0; i < static_cast<int>(specs.size()); ++i) {
    if (specs[i].form.dense()) {
      set.members_.push_back({make_dense_linear(builder, specs[i], in, activation), {i}});
    } else if (specs[i].form.storage == Storage::grid) {
      set.members_.push_back({make_grid_linear(builder, specs[i], in, activation), {i}});
    } else if (specs[i].form.storage == Storage::fixed) {
      set.members_.push_back({make_fixed_linear(builder, specs[i], in, activation), {i}});
    } else if (specs[i].form.between != kernels::Activation::none && !specs[i].form.layout.empty()) {
      set.members_.push_back({make_bottleneck_linear(builder, specs[i], in, activation), {i}});
    } else if (stands_alone(builder, specs[i], in)) {
      set.members_.push_back({make_tt_linear(builder, {specs[i]}, in, activation), {i}});
    } else {
      chains.push_back(specs[i]);
      chain_outputs.push_back(i);
    }
  }
  if (!chains.empty()) set.members_.push_back({make_tt_linear(builder, chains, in, activation), chain_outputs});
  return set;
}

void LinearSet::forward(Pass& pass, const Value& x, Tensor* y) {
  for (Member& member : members_) {
    Tensor made[kernels::max_outputs];
    member.linear->forward(pass, x, made);
    for (std::size_t i = 0; i < member.outputs.size(); ++i) y[member.outputs[i]] = made[i];
  }
}

Tensor LinearSet::backward_replacing(Pass& pass, Sink& sink, Tensor dy, std::int64_t in) {
  return members_.front().linear->backward_replacing(pass, sink, &dy, in);
}

void LinearSet::backward(Pass& pass, Sink& sink, Tensor* dy, const Tensor& dx, bool accumulate_dx) {
  for (Member& member : members_) {
    Tensor taken[kernels::max_outputs];
    for (std::size_t i = 0; i < member.outputs.size(); ++i) taken[i] = dy[member.outputs[i]];
    member.linear->backward(pass, sink, taken, dx, accumulate_dx);
    accumulate_dx = true;
  }
}

}  // namespace comera::layers
