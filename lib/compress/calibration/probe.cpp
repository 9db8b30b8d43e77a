#include "lib/compress/calibration/probe.h"

#include "lib/core/terminal/stop.h"

namespace comera::compress {
namespace {

// Appends the rows of tokens without the rows of padding.
template <class T>
void add_tokens(std::span<const T> hidden, std::span<const std::int32_t> lengths, std::int64_t padded,
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

  void open(std::size_t batch) { batch_ = batch; }
  void see(const std::string&, const plan::Tensor&) override {}
  bool enter(std::size_t block) override { return begin_ && block < *begin_; }
  void leave(std::size_t block, plan::Tensor& normed, plan::Tensor& residual) override {
    std::vector<BlockOutput>& known = probe_.known_[batch_];
    if (!begin_) {
      if (known.size() <= block) known.resize(block + 1);
      known[block].keep(probe_.scratch_, normed, residual);
    } else if (block + 1 == *begin_) {
      known[block].give(probe_.scratch_, normed, residual);
    }
    if (!probe_.decoder_ || block != probe_.last_) return;
    // The decoder of words need not run.
    const TextBatch& text = probe_.batches_[batch_];
    add_tokens(std::span(static_cast<const float*>(normed.data), static_cast<std::size_t>(normed.elements())),
               text.lengths(), text.batch.length, hidden);
    throw SeenEnough();
  }

  std::vector<double> hidden;  // of all batches so far, with a decoder of words

 private:
  Probe& probe_;
  std::optional<std::size_t> begin_;  // empty: forwards start at the tokens, and block outputs are stored
  std::size_t batch_ = 0;
};

Probe::Probe(engine::Engine& engine, StreamedWeights& weights, std::span<const TextBatch> batches, ScratchFile& scratch,
             layers::Parameter* decoder, std::size_t blocks)
    : engine_(engine), weights_(weights), batches_(batches), scratch_(scratch), decoder_(decoder), last_(blocks - 1) {
  known_.resize(batches_.size());
}

std::vector<double> Probe::outputs(Blocks& blocks) {
  std::vector<double> all;
  weights_.show(StreamedWeights::Version::original);
  const layers::ObserveInputs observe(blocks);
  for (std::size_t b = 0; b < batches_.size(); ++b) {
    check_stop();
    blocks.open(b);
    try {
      const engine::Scores scores = engine_.evaluate(batches_[b].batch);
      if (scores.hidden.empty())
        all.insert(all.end(), scores.logits.begin(), scores.logits.end());
      else
        add_tokens(scores.hidden, batches_[b].lengths(), batches_[b].batch.length, all);
    } catch (const SeenEnough&) {
    }
  }
  return decoder_ ? std::move(blocks.hidden) : all;
}

double Probe::divergence(const layers::Parameter& parameter, std::span<const double> numbers,
                         std::span<const double> hidden) {
  if (!words_) words_.emplace(outputs_, weights_.original(*decoder_), decoder_->shape[1]);
  return &parameter == decoder_ ? words_->divergence(hidden, numbers) : words_->divergence(hidden);
}

std::optional<double> Probe::effect(layers::Parameter& parameter, std::span<const double> numbers, std::size_t block) {
  if (outputs_.empty()) {
    Blocks keeping(*this, {});
    outputs_ = outputs(keeping);
  }
  // Behind the blocks there is only the decoder of words, whose own weight does not change its inputs.
  if (&parameter == decoder_ && block > last_ && !outputs_.empty()) return divergence(parameter, numbers, outputs_);
  Blocks beginning(*this, block);
  weights_.try_out(parameter, numbers);
  const std::vector<double> moved = outputs(beginning);
  weights_.end_trial();
  if (decoder_ && !moved.empty()) return divergence(parameter, numbers, moved);
  double change = 0, whole = 0;
  for (std::size_t i = 0; i < moved.size(); ++i) {
    change += (moved[i] - outputs_[i]) * (moved[i] - outputs_[i]);
    whole += outputs_[i] * outputs_[i];
  }
  return whole > 0 ? std::optional(change / whole) : std::nullopt;
}

}  // namespace comera::compress
