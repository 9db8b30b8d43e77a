#include "lib/data/loader.h"

#include <chrono>
#include <optional>

#include "lib/core/error.h"
#include "lib/data/clicks/click_dataset.h"
#include "lib/data/collate.h"
#include "lib/data/files/files.h"
#include "lib/data/images/image_dataset.h"
#include "lib/data/prefetch.h"
#include "lib/data/window.h"
#include "lib/data/word_pieces.h"

namespace comera::data {
namespace {

class WindowLoader final : public Loader {
 public:
  WindowLoader(std::shared_ptr<const FileDataset> dataset, const LoaderOptions& options, const LoaderState& state)
      : dataset_(std::move(dataset)), options_(options), position_(state) {
    const bool rows = !predicts_words(dataset_->spec().task);
    rule_ = {options.mask_probability, options.seed};
    if (options.whole_words) {
      goes_on_ = pieces_inside_words(dataset_->tokenizer());
      rule_.goes_on = &goes_on_;
    }
    prefetch_.emplace(rows ? rows_source(dataset_, options_) : stream_source(dataset_, options_, state.parts != 0),
                      state, !options.shuffle, options.stops);
    skip_ = state.step - steps_before({step_sequences(), dataset_->spec().max_length}, state.window);
    if (!rows && !options.shuffle) read_sizes();
    if (skip_ < 0)
      fail_input("[data] the checkpoint's position contradicts itself: step {} in window {}", state.step, state.window);
  }

  bool next(std::span<Batch> parts) override {
    COMERA_CHECK(static_cast<std::int64_t>(parts.size()) == options_.accumulate);
    if (options_.stops) check_stop();
    if (used_ == window_.sequences.size() && !take_window()) return false;
    const auto begin = used_;
    used_ = std::min(begin + static_cast<std::size_t>(step_sequences()), window_.sequences.size());
    const std::span<const Sequence> step(window_.sequences.data() + begin, used_ - begin);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::size_t from = std::min(step.size(), i * static_cast<std::size_t>(options_.batch));
      const std::size_t to = std::min(step.size(), from + static_cast<std::size_t>(options_.batch));
      collate(window_, step.subspan(from, to - from), dataset_->tokenizer(), rule_, parts[i]);
    }
    const bool window_ended = used_ == window_.sequences.size();
    epoch_ended_ = window_ended && window_.next.epoch != window_.start.epoch;
    position_ = window_ended ? window_.next : window_.start;
    if (!window_ended) position_.step += static_cast<std::int64_t>(used_) / step_sequences();
    return true;
  }

  LoaderState state() const override { return position_; }
  Reach reach() const override {
    const std::int64_t samples = window_.start.samples + static_cast<std::int64_t>(used_);
    if (!predicts_words(dataset_->spec().task))
      return {samples - window_.start.epoch * dataset_->size(), dataset_->size()};
    if (sizes_.empty()) return {samples, 0};
    const double share =
        static_cast<double>(used_) / static_cast<double>(std::max<std::size_t>(window_.sequences.size(), 1));
    return {begin_bytes_ + static_cast<std::int64_t>(share * static_cast<double>(end_bytes() - begin_bytes_)),
            sizes_.back(), TaskUnit::bytes};
  }
  bool epoch_ended() const override { return epoch_ended_; }
  std::int64_t steps_per_epoch() const override { return (dataset_->size() + step_sequences() - 1) / step_sequences(); }
  double waited_ms() const override { return waited_ms_; }
  std::int64_t longest() const override { return round_up_length(dataset_->spec().max_length); }

 private:
  std::int64_t step_sequences() const { return options_.batch * options_.accumulate; }

  // Cumulative file sizes: the bytes before each file, and the total. Empty if a file is packed.
  void read_sizes() {
    sizes_ = {0};
    for (const std::string& file : dataset_->files()) {
      const std::int64_t bytes = text_bytes(file);
      if (bytes == 0) return sizes_.clear();
      sizes_.push_back(sizes_.back() + bytes);
    }
  }
  std::int64_t bytes_before(const LoaderState& state) const {
    return sizes_[static_cast<std::size_t>(state.file)] + state.offset;
  }

  // Bytes of the files up to the end of the window.
  std::int64_t end_bytes() const {
    return window_.next.epoch != window_.start.epoch ? sizes_.back() : bytes_before(window_.next) + window_.used_bytes;
  }

  bool take_window() {
    const bool follows = !window_.sequences.empty() && window_.next.epoch == window_.start.epoch;
    const std::int64_t before = follows && !sizes_.empty() ? end_bytes() : 0;
    const auto start = std::chrono::steady_clock::now();
    const bool any = prefetch_->take(window_);
    waited_ms_ += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    if (!any) return false;
    if (!sizes_.empty()) begin_bytes_ = follows ? before : bytes_before(window_.start);
    used_ = static_cast<std::size_t>(skip_ * step_sequences());
    skip_ = 0;
    if (used_ >= window_.sequences.size())
      fail_input("[data] the checkpoint's position lies behind the end of the data; the data has changed");
    return true;
  }

  std::shared_ptr<const FileDataset> dataset_;
  LoaderOptions options_;
  LoaderState position_;
  MaskRule rule_;
  std::vector<bool> goes_on_;  // of MaskRule
  Window window_;
  std::vector<std::int64_t> sizes_;
  std::int64_t begin_bytes_ = 0;  // of the files, before the window
  std::size_t used_ = 0;          // sequences of the window that were returned
  std::int64_t skip_ = 0;         // steps of the next window that were returned before the checkpoint
  bool epoch_ended_ = false;
  double waited_ms_ = 0;
  std::optional<Prefetch<WindowSource, Window>> prefetch_;
};

void check_options(const LoaderOptions& options) {
  if (options.batch < 1)
    fail_input("[data] a batch of {} sequences is too small; use --batch 1 or more", options.batch);
  if (options.accumulate < 1)
    fail_input("[data] {} micro-batches make no step; use --accumulate 1 or more", options.accumulate);
  if (!(options.mask_probability > 0 && options.mask_probability < 1))
    fail_input("[data] a mask probability of {} is outside (0, 1)", options.mask_probability);
  if (options.stride < 0) fail_input("[data] a stride of {} tokens goes backwards; use 1 or more", options.stride);
}

}  // namespace

std::unique_ptr<Loader> Loader::open(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options,
                                     const LoaderState& state) {
  check_options(options);
  if (auto clicks = std::dynamic_pointer_cast<const ClickDataset>(dataset))
    return open_click_loader(std::move(clicks), options, state);
  if (auto images = std::dynamic_pointer_cast<const ImageDataset>(dataset))
    return open_image_loader(std::move(images), options, state);
  auto files = std::dynamic_pointer_cast<const FileDataset>(std::move(dataset));
  COMERA_CHECK(files != nullptr);
  return std::make_unique<WindowLoader>(std::move(files), options, state);
}

}  // namespace comera::data
