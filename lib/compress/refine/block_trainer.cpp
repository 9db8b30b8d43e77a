#include "lib/compress/refine/block_trainer.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "lib/core/error.h"
#include "lib/core/terminal/stop.h"
#include "lib/core/terminal/task_progress.h"
#include "lib/data/random.h"
#include "models/lone_block.h"

namespace comera::compress {
namespace {

// The squared norm of the rows of tokens, without padding.
double squared_target(const data::Batch& batch) {
  const auto target = batch[models::block_target].as<const float>();
  const auto lengths = batch["lengths"].as<const std::int32_t>();
  const std::size_t sequence = target.size() / lengths.size(),
                    hidden = sequence / static_cast<std::size_t>(batch.length);
  double sum = 0;
  for (std::size_t b = 0; b < lengths.size(); ++b)
    for (const float value : target.subspan(b * sequence, static_cast<std::size_t>(lengths[b]) * hidden))
      sum += static_cast<double>(value) * value;
  return sum;
}

}  // namespace

// Cheap values are computed again in the backward: less memory, and the same bits.
std::unique_ptr<engine::Engine> engine_of_block(const plan::Machine& machine, const models::ModelSpec& spec,
                                                std::int64_t block,
                                                const std::shared_ptr<const BlockUpdateRule>& rule) {
  const auto factory = [spec, block, dtype = machine.dtype](const layers::RankTable&) {
    return models::make_lone_block(spec, block, dtype);
  };
  return std::make_unique<engine::Engine>(
      machine, factory,
      engine::EngineOptions{.recompute = layers::Recompute::cheap, .update = rule, .fetch_hidden = true});
}

BlockTrainer::BlockTrainer(BlockFlows& flows, const models::ModelSpec& spec, std::size_t block)
    : flows_(flows), block_(block), rule_(std::make_shared<BlockUpdateRule>()) {
  engine_ = engine_of_block(flows.machine(), spec, static_cast<std::int64_t>(block), rule_);
  engine_->allocate();
}

std::span<float> BlockTrainer::numbers(const layers::Parameter& parameter) {
  COMERA_CHECK(!parameter.source);
  return {static_cast<float*>(parameter.value.data), static_cast<std::size_t>(parameter.shape.elements())};
}

void BlockTrainer::round_scales() {
  for (const layers::Parameter& parameter : model().parameters().all())
    if (BlockUpdateRule::is_on_grid(parameter)) rule_->grid(parameter).round();
}

double BlockTrainer::error(TextPart part) {
  double lost = 0, whole = 0;
  const auto hidden = static_cast<double>(models::common(flows_.spec()).hidden);
  for (std::size_t b = 0; b < flows_.batches().size(); ++b) {
    if (flows_.batches()[b].part != part) continue;
    check_stop();
    const data::Batch& batch = flows_.batch(b);
    lost += engine_->evaluate(batch).loss * hidden;
    whole += squared_target(batch);
  }
  return whole > 0 ? std::sqrt(lost / whole) : 0;
}

double BlockTrainer::rate_of(std::int64_t step, const Refinement& settings) const {
  const double warm = std::max(1.0, static_cast<double>(settings.steps) / 10), at = static_cast<double>(step);
  if (at + 1 < warm) return settings.rate * (at + 1) / warm;
  const double done = (at + 1 - warm) / std::max(1.0, static_cast<double>(settings.steps) - warm);
  return settings.rate * 0.5 * (1 + std::cos(std::numbers::pi * std::min(done, 1.0)));
}

void BlockTrainer::train(const Refinement& settings) {
  std::vector<std::size_t> fitted;
  for (std::size_t b = 0; b < flows_.batches().size(); ++b)
    if (flows_.batches()[b].part == TextPart::fitted) fitted.push_back(b);
  const auto count = std::ssize(fitted);
  rule_->measure(model().parameters());
  TaskProgress task(fmt::format("refining block {}", block_ + 1), settings.steps);
  for (std::int64_t step = 0; step < settings.steps; ++step, task.advance()) {
    check_stop();
    const auto epoch = static_cast<std::uint64_t>(step / count);
    const data::Permutation order(count, data::Random(0, epoch, data::Purpose::steps), block_);
    rule_->begin(step, rate_of(step, settings));
    engine_->begin_step(0, {.step = step});
    engine_->train(std::span(&flows_.batch(fitted[static_cast<std::size_t>(order(step % count))]), 1));
    if (engine_->state().scalars.finite == 0) break;
  }
}

void BlockTrainer::give_outputs() {
  for (std::size_t b = 0; b < flows_.batches().size(); ++b) {
    check_stop();
    flows_.keep(b, engine_->evaluate(flows_.batch(b)));
  }
  flows_.close();
}

}  // namespace comera::compress
