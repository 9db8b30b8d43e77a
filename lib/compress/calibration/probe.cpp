#include "lib/compress/calibration/probe.h"

#include "lib/core/terminal/stop.h"

namespace comera::compress {
namespace {

constexpr std::int64_t probe_tokens = 1024;  // minimum

// Appends the rows of tokens without the rows of padding.
void add_tokens(std::span<const double> hidden, std::span<const std::int32_t> lengths, std::int64_t padded,
                std::vector<double>& all) {
  const std::size_t width = hidden.size() / (lengths.size() * static_cast<std::size_t>(padded));
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    const auto first = hidden.begin() + static_cast<std::ptrdiff_t>(b * static_cast<std::size_t>(padded) * width);
    all.insert(all.end(), first, first + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(lengths[b]) * width));
  }
}

}  // namespace

// Stores the output of every block, or starts a forward at a given block from stored outputs.
class Probe::Blocks final : public layers::InputObserver {
 public:
  Blocks(Probe& probe, std::optional<std::size_t> begin) : probe_(probe), begin_(begin) {}

  void open(std::size_t batch) { known_ = &probe_.known_[batch]; }
  void see(const std::string&, const plan::Tensor&) override {}
  bool enter(std::size_t block) override { return begin_ && block < *begin_; }
  void leave(std::size_t block, plan::Tensor& normed, plan::Tensor& residual) override {
    if (begin_) {
      if (block + 1 == *begin_) (*known_)[block].give(probe_.scratch_, normed, residual);
      return;
    }
    if (known_->size() <= block) known_->resize(block + 1);
    (*known_)[block].keep(probe_.scratch_, normed, residual);
  }

 private:
  Probe& probe_;
  std::optional<std::size_t> begin_;  // empty: forwards start at the tokens, and block outputs are stored
  std::vector<BlockOutput>* known_ = nullptr;
};

Probe::Probe(engine::Engine& engine, StreamedWeights& weights, std::span<const TextBatch> batches, ScratchFile& scratch)
    : engine_(engine), weights_(weights), scratch_(scratch) {
  std::int64_t tokens = 0;
  for (const TextBatch& batch : batches) {
    if (batch.part != TextPart::choosing || tokens >= probe_tokens) continue;
    for (const std::int32_t length : batch.lengths()) tokens += length;
    batches_.push_back(&batch);
  }
  known_.resize(batches_.size());
}

std::vector<double> Probe::outputs(Blocks& blocks) {
  std::vector<double> all;
  weights_.show(StreamedWeights::Version::original);
  const layers::ObserveInputs observe(blocks);
  for (std::size_t b = 0; b < batches_.size(); ++b) {
    check_stop();
    blocks.open(b);
    const engine::Scores scores = engine_.evaluate(batches_[b]->batch);
    if (scores.hidden.empty())
      all.insert(all.end(), scores.logits.begin(), scores.logits.end());
    else
      add_tokens(scores.hidden, batches_[b]->lengths(), batches_[b]->batch.length, all);
  }
  return all;
}

std::optional<double> Probe::effect(layers::Parameter& parameter, std::span<const double> numbers, std::size_t block) {
  if (outputs_.empty()) {
    Blocks keeping(*this, {});
    outputs_ = outputs(keeping);
  }
  Blocks beginning(*this, block);
  weights_.try_out(parameter, numbers);
  const std::vector<double> moved = outputs(beginning);
  weights_.end_trial();
  double change = 0, whole = 0;
  for (std::size_t i = 0; i < moved.size(); ++i) {
    change += (moved[i] - outputs_[i]) * (moved[i] - outputs_[i]);
    whole += outputs_[i] * outputs_[i];
  }
  return whole > 0 ? std::optional(change / whole) : std::nullopt;
}

}  // namespace comera::compress
