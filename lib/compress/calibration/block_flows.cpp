#include "lib/compress/calibration/block_flows.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/core/error.h"
#include "lib/core/terminal/stop.h"
#include "lib/core/terminal/task_progress.h"
#include "models/lone_block.h"

namespace comera::compress {
namespace {

// Runs a model from the stored outputs of a block to the outputs of a later one, which it stores.
class RunToBlock final : public layers::InputObserver {
 public:
  // `known`: nothing is stored, the forward begins with the tokens. `until`: nothing: it ends before the first block.
  RunToBlock(ScratchFile& scratch, std::optional<std::size_t> known, std::optional<std::size_t> until)
      : scratch_(scratch), known_(known), until_(until) {}

  void open(BlockOutput& output) { output_ = &output; }
  void see(const std::string&, const plan::Tensor&) override {}
  layers::Instead instead(const std::string& layer, std::int64_t tokens) override {
    return factors ? factors(layer, tokens) : layers::Instead{};
  }
  void arrive(const plan::Tensor& normed, const plan::Tensor& residual) override {
    if (!until_) end(normed, residual);
  }
  bool enter(std::size_t block) override { return known_ && block <= *known_; }
  void leave(std::size_t block, plan::Tensor& normed, plan::Tensor& residual) override {
    if (block == known_) output_->give(scratch_, normed, residual);
    if (block == until_) end(normed, residual);
  }

  std::function<layers::Instead(const std::string& layer, std::int64_t tokens)> factors = {};

 private:
  void end(const plan::Tensor& normed, const plan::Tensor& residual) {
    output_->keep(scratch_, normed, residual);
    throw SeenEnough();
  }

  ScratchFile& scratch_;
  std::optional<std::size_t> known_, until_;
  BlockOutput* output_ = nullptr;
};

plan::Tensor rows(std::span<float> numbers, std::int64_t columns) {
  return {numbers.data(), DType::f32, {std::ssize(numbers) / columns, columns}, -1};
}

}  // namespace

BlockFlows::BlockFlows(const Parts& parts) : parts_(parts), norms_inputs_(models::norms_inputs(parts.spec)) {
  for (BlockOutputs* outputs : {&first_, &dense_}) outputs->batches.resize(parts_.batches.size());
}

void BlockFlows::open(std::size_t block, std::size_t size) {
  block_ = block, size_ = size;
  if (block == 0) {
    first_.block.reset();
    run(Version::replaced, first_, std::nullopt);
  } else if (BlockOutputs& now = parts_.current(size); now.block != block - 1) {
    run(Version::replaced, now, block - 1);
  }
  if (dense_.block != block) run(Version::original, dense_, block);
  free_step();
}

void BlockFlows::free_step() {
  parts_.weights.forget_beyond(0);
  parts_.engine.free_step();
}

void BlockFlows::run(Version version, BlockOutputs& outputs, std::optional<std::size_t> until) {
  const bool goes_on = outputs.block && until && *outputs.block < *until;
  RunToBlock observer(parts_.scratch, goes_on ? outputs.block : std::nullopt, until);
  outputs.block.reset();
  if (version == Version::replaced) observer.factors = parts_.instead;
  parts_.weights.show(version, size_);
  const layers::ObserveInputs observe(observer);
  TaskProgress task(fmt::format("flows of block {}", block_ + 1), std::ssize(parts_.batches));
  for (std::size_t b = 0; b < parts_.batches.size(); ++b, task.advance()) {
    check_stop();
    observer.open(outputs.batches[b]);
    try {
      parts_.engine.evaluate(parts_.batches[b].batch);
    } catch (const SeenEnough&) {
    }
  }
  outputs.block = until;
}

const data::Batch& BlockFlows::batch(std::size_t index) {
  const data::Batch& text = parts_.batches[index].batch;
  const std::int64_t tokens = text.sequences * text.length, hidden = models::common(parts_.spec).hidden;
  batch_.sequences = text.sequences, batch_.length = text.length;
  for (const char* name : {"lengths", "samples"}) {
    const TensorView from = text[name], to = batch_.add(name, from.dtype, from.shape);
    std::copy_n(static_cast<const std::byte*>(from.data), from.bytes(), static_cast<std::byte*>(to.data));
  }
  batch_.counted = batch_.tokens = 0;
  for (const std::int32_t length : parts_.batches[index].lengths()) batch_.counted += length;
  batch_.tokens = batch_.counted;
  beside_.resize(norms_inputs_ ? static_cast<std::size_t>(tokens * hidden) : 0);
  const auto fill = [&](const char* name, const BlockOutput& stored) {
    const auto numbers = batch_.add(name, DType::f32, {tokens, hidden}).as<float>();
    plan::Tensor whole = rows(numbers, hidden), beside = norms_inputs_ ? rows(beside_, hidden) : plan::Tensor{};
    stored.give(parts_.scratch, norms_inputs_ ? beside : whole, norms_inputs_ ? whole : beside);
  };
  fill(models::block_input, (block_ == 0 ? first_ : parts_.current(size_)).batches[index]);
  fill(models::block_target, dense_.batches[index]);
  return batch_;
}

void BlockFlows::keep(std::size_t index, const engine::Scores& scores) {
  const std::int64_t hidden = models::common(parts_.spec).hidden;
  const auto& normed = norms_inputs_ ? scores.embedding : scores.hidden;
  normed_.assign(normed.begin(), normed.end());
  if (norms_inputs_) residual_.assign(scores.hidden.begin(), scores.hidden.end());
  parts_.current(size_).batches[index].keep(parts_.scratch, rows(normed_, hidden),
                                            norms_inputs_ ? rows(residual_, hidden) : plan::Tensor{});
}

void BlockFlows::close() { parts_.current(size_).block = block_; }

void BlockFlows::read(const layers::Parameter& parameter, std::span<float> numbers) const {
  parts_.weights.read_original(of_model(parameter), numbers);
}

const layers::Parameter& BlockFlows::of_model(const layers::Parameter& of_block) const {
  const layers::Parameter* found = parts_.engine.model().parameters().find(of_block.name);
  COMERA_CHECK(found != nullptr);
  return *found;
}

std::string BlockFlows::tensor_of(const layers::Parameter& parameter) const {
  return parts_.weights.tensor_of(of_model(parameter));
}

}  // namespace comera::compress
