#include "lib/layers/norm.h"

#include "lib/layers/training/observe.h"

namespace comera::layers {
namespace {

Parameter* add_vector(Builder& builder, const std::string& name, std::int64_t columns, double value) {
  Parameter parameter;
  parameter.name = name;
  parameter.shape = {columns};
  parameter.init = {Init::Distribution::constant, value};
  return builder.add(std::move(parameter));
}

}  // namespace

ResidualNorm::ResidualNorm(Builder& builder, const std::string& name, std::int64_t columns, const Settings& settings)
    : columns_(columns),
      settings_(settings),
      site_(builder.dropout_site()),
      output_site_(builder.dropout_site()),
      sum_{name},
      output_{name} {
  gain_ = add_vector(builder, name + ".weight", columns, 1);
  if (settings.kind == kernels::NormKind::layer && settings.shift)
    shift_ = add_vector(builder, name + ".bias", columns, 0);
}

Value ResidualNorm::forward(Pass& pass, Tensor x, const Tensor& residual, Tensor* sum) {
  const std::int64_t tokens = x.elements() / columns_;
  if (InputObserver* observer = input_observer(); observer && residual.data && pass.walk.computes())
    observer->join(residual, x);
  mean_ = pass.walk.make_statistic("mean", {tokens});
  rstd_ = pass.walk.make_statistic("rstd", {tokens});
  Tensor y = pass.walk.make("norm", {tokens, columns_});
  output_dropout_ = pass.dropout(settings_.output_dropout, output_site_);
  kernels::NormForward call;
  call.kind = settings_.kind, call.tokens = tokens, call.columns = columns_, call.epsilon = settings_.epsilon;
  call.x = x.data, call.residual = residual.data;
  call.dropout = pass.dropout(settings_.dropout, site_), call.output_dropout = output_dropout_;
  call.gain = gain_->value.data, call.shift = shift_ ? shift_->value.data : nullptr;
  call.sum = x.data, call.mean = mean_.data, call.rstd = rstd_.data, call.y = y.data;
  pass.walk.run(pass.backend().norm_forward, call);
  if (sum) *sum = pass.walk.keep(x);
  keep_input(pass, x, y);
  if (!pass.policy.saves()) {
    pass.walk.drop(mean_);
    pass.walk.drop(rstd_);
  }
  return {y, pass.policy.saves() && !restores_ ? this : nullptr, restores_};
}

// An output with dropout has lost numbers, so s is kept there.
void ResidualNorm::keep_input(Pass& pass, Tensor& sum, const Tensor& y) {
  Walk& walk = pass.walk;
  restores_ = pass.policy.saves() && pass.policy.recompute(sum_.layer) == Recompute::share &&
              settings_.output_dropout <= 0 && !settings_.output_changes;
  if (!restores_) return pass.policy.take(walk, sum, Use::value, sum_);
  const std::int64_t tokens = sum.elements() / columns_, picked = kernels::picked_columns(columns_);
  places_ = walk.make("picked columns", {picked}, DType::i32);
  values_ = walk.make("picked", {tokens, picked});
  walk.run(walk.backend().norm_pick, kernels::NormPick{.tokens = tokens,
                                                       .columns = columns_,
                                                       .sum = sum.data,
                                                       .gain = gain_->value.data,
                                                       .shift = shift_ ? shift_->value.data : nullptr,
                                                       .places = static_cast<std::int32_t*>(places_.data),
                                                       .values = values_.data});
  pass.policy.save(walk, {y}, Use::value, output_);
  walk.drop(sum);
}

kernels::NormRestore ResidualNorm::restoring(std::int64_t tokens) const {
  return {.tokens = tokens,
          .columns = columns_,
          .mean = settings_.kind == kernels::NormKind::layer ? mean_.data : nullptr,
          .rstd = rstd_.data,
          .gain = gain_->value.data,
          .shift = shift_ ? shift_->value.data : nullptr,
          .places = static_cast<const std::int32_t*>(places_.data),
          .values = values_.data};
}

// s, in the memory of y: all other layers that read y have had their backward.
Tensor ResidualNorm::input(Walk& walk) {
  if (!restores_) return sum_->value(walk);
  Tensor sum = output_->value(walk);
  kernels::NormRestore call = restoring(sum.elements() / columns_);
  call.y = call.sum = sum.data;
  walk.run(walk.backend().norm_restore, call);
  return sum;
}

void ResidualNorm::differentiate(Walk& walk, const kernels::NormBackward& call) {
  if (!restores_ || walk.backend().norm_output_backward.run == nullptr) {
    kernels::NormBackward of_input = call;
    Tensor sum = input(walk);
    of_input.sum = sum.data;
    walk.run(walk.backend().norm_backward, of_input);
    return walk.drop(sum);
  }
  kernels::NormOutputBackward of_output{.norm = call, .input = restoring(call.tokens), .coded = {}};
  if (const auto coded = output_->coded()) {
    of_output.coded = *coded;
    walk.run(walk.backend().norm_output_backward, of_output);
    return output_->release(walk);
  }
  Tensor y = output_->value(walk);
  of_output.input.y = y.data;
  walk.run(walk.backend().norm_output_backward, of_output);
  walk.drop(y);
}

Tensor ResidualNorm::rebuild(Walk& walk) {
  Tensor sum = sum_->read(walk);
  const std::int64_t tokens = sum.elements() / columns_;
  Tensor y = walk.make("norm", {tokens, columns_});
  walk.run(walk.backend().norm_apply, kernels::NormApply{.kind = settings_.kind,
                                                         .tokens = tokens,
                                                         .columns = columns_,
                                                         .sum = sum.data,
                                                         .mean = mean_.data,
                                                         .rstd = rstd_.data,
                                                         .gain = gain_->value.data,
                                                         .shift = shift_ ? shift_->value.data : nullptr,
                                                         .output_dropout = output_dropout_,
                                                         .y = y.data});
  walk.drop(sum);
  return y;
}

Tensor ResidualNorm::backward(Pass& pass, Sink& sink, Tensor dy, Tensor d_residual, Tensor* dx) {
  const std::int64_t tokens = dy.elements() / columns_;
  const kernels::Dropout dropout = pass.dropout(settings_.dropout, site_);
  if (dx) *dx = dropout.probability > 0 ? pass.walk.make("d_branch", {tokens, columns_}) : pass.walk.keep(dy);
  Tensor d_gain = sink.open(pass.walk, *gain_);
  Tensor d_shift = shift_ ? sink.open(pass.walk, *shift_) : Tensor{};
  kernels::NormBackward call;
  call.kind = settings_.kind, call.tokens = tokens, call.columns = columns_;
  call.dy = dy.data, call.mean = mean_.data, call.rstd = rstd_.data, call.gain = gain_->value.data;
  call.dropout = dropout, call.output_dropout = output_dropout_;
  call.d_sum_in = d_residual.data, call.d_sum = dy.data, call.dx = dx ? dx->data : nullptr;
  call.d_gain = d_gain.data, call.d_shift = d_shift.data;
  differentiate(pass.walk, call);
  sink.close(pass.walk, *gain_, d_gain);
  if (shift_) sink.close(pass.walk, *shift_, d_shift);
  if (!d_residual.empty()) pass.walk.drop(d_residual);
  if (restores_) {
    pass.walk.drop(places_);
    pass.walk.drop(values_);
  }
  pass.walk.drop(mean_);
  pass.walk.drop(rstd_);
  return dy;
}

}  // namespace comera::layers
