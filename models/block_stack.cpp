#include "models/block_stack.h"

#include <fmt/core.h>

#include <utility>

#include "kernels/elementwise.h"
#include "lib/layers/training/observe.h"

namespace comera::models {
namespace {

void drop(Walk& walk, Flow& flow) {
  walk.drop(flow.normed.tensor);
  if (!flow.residual.empty()) walk.drop(flow.residual);
}

}  // namespace

Tensor sum_of(Pass& pass, FlowGradient d) {
  pass.walk.run(pass.backend().add_scaled, kernels::AddScaled{d.normed.elements(), 1, d.residual.data, d.normed.data});
  pass.walk.drop(d.residual);
  return d.normed;
}

void BlockStack::add(std::unique_ptr<Block> block, std::string name) {
  names_.push_back(std::move(name));
  labels_.push_back(fmt::format("layer.{}", blocks_.size()));
  blocks_.push_back(std::move(block));
  kept_.emplace_back();
}

Flow BlockStack::forward(Pass& pass, Flow in, const KeyRanges& keys) {
  layers::InputObserver* observer = pass.walk.recording() ? nullptr : layers::input_observer();
  if (observer) observer->arrive(in.normed.tensor, in.residual);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    pass.walk.set_silent(observer && observer->enter(i));
    in = run(pass, i, in, keys);
    pass.walk.set_silent(false);
    if (observer) observer->leave(i, in.normed.tensor, in.residual);
  }
  return in;
}

FlowGradient BlockStack::backward(Pass& pass, Sink& sink, FlowGradient d, const KeyRanges& keys) {
  for (std::size_t i = blocks_.size(); i-- > 0;) d = run_backward(pass, sink, i, d, keys);
  return d;
}

// Of a block that runs again only the input is kept.
Flow BlockStack::run(Pass& pass, std::size_t index, Flow in, const KeyRanges& keys) {
  Walk::Scope scope(pass.walk, labels_[index].c_str());
  Pass inner = pass;
  inner.policy = policy_inside(pass, index);
  if (runs_again(pass, index)) {
    inner.policy = pass.policy.discarding();
    kept_[index] = {{pass.walk.keep(in.normed.tensor), nullptr},
                    in.residual.empty() ? Tensor{} : pass.walk.keep(in.residual)};
  }
  return blocks_[index]->forward(inner, in, keys);
}

layers::SavePolicy BlockStack::policy_inside(const Pass& pass, std::size_t index) const {
  return pass.policy.inside_block(runs_again(pass, index));
}

// True if the backward recomputes this block. The last block is excluded: its backward directly follows its forward,
// so its saved tensors are freed before those of another block exist.
bool BlockStack::runs_again(const Pass& pass, std::size_t index) const {
  return index + 1 < blocks_.size() && pass.policy.runs_again(names_[index]);
}

FlowGradient BlockStack::run_backward(Pass& pass, Sink& sink, std::size_t index, const FlowGradient& d,
                                      const KeyRanges& keys) {
  Walk::Scope scope(pass.walk, labels_[index].c_str());
  Pass inner = pass;
  inner.policy = policy_inside(pass, index);
  if (runs_again(pass, index)) {
    Flow again = blocks_[index]->forward(inner, std::exchange(kept_[index], {}), keys);
    drop(pass.walk, again);
  }
  return blocks_[index]->backward(inner, sink, d);
}

}  // namespace comera::models
