#include "lib/layers/linear.h"

#include <cmath>

#include "kernels/tt_linear.h"

namespace comera::layers {

double linear_deviation(std::int64_t in, std::int64_t out) { return std::sqrt(1.0 / static_cast<double>(in + out)); }

Parameter* add_bias(Builder& builder, const LinearSpec& spec) {
  if (!spec.bias) return nullptr;
  Parameter bias;
  bias.name = spec.name + ".bias";
  bias.shape = {spec.out};
  bias.init = {Init::Distribution::uniform, 1 / std::sqrt(static_cast<double>(spec.out))};
  return builder.add(std::move(bias));
}

Tensor Linear::backward_replacing(Pass& pass, Sink& sink, Tensor* dy, std::int64_t in) {
  Tensor dx = pass.walk.make("dx", {pass.tokens(), in});
  backward(pass, sink, dy, dx, false);
  return dx;
}

LinearSet LinearSet::make(Builder& builder, const std::vector<LinearSpec>& specs, std::int64_t in,
                          kernels::Activation activation) {
  LinearSet set;
  std::vector<LinearSpec> chains;
  std::vector<int> chain_outputs;
  for (int i = 0; i < static_cast<int>(specs.size()); ++i) {
    require_supported(specs[i].form, specs[i].name);
    if (specs[i].form.dense()) {
      set.members_.push_back({make_dense_linear(builder, specs[i], in, activation), {i}});
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
