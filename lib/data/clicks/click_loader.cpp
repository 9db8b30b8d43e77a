// The loader of click data: blocks of rows, read ahead on a thread.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>

#include "lib/core/error.h"
#include "lib/data/clicks/click_block.h"
#include "lib/data/clicks/click_dataset.h"
#include "lib/data/prefetch.h"
#include "lib/data/random.h"

namespace comera::data {
namespace {

constexpr std::int64_t rows_of_block = 1 << 17;

// Steps in a block; a block ends with a whole step, except the last one of an epoch.
std::int64_t block_steps(std::int64_t step_rows) { return std::max<std::int64_t>(1, rows_of_block / step_rows); }

class BlockSource {
 public:
  BlockSource(std::shared_ptr<const ClickDataset> dataset, const LoaderOptions& options)
      : dataset_(std::move(dataset)), options_(options), step_rows_(options.batch * options.accumulate) {}

  void cancel() { cancelled_ = true; }

  ClickBlock build(const LoaderState& start) {
    seek(start);
    ClickBlock block;
    block.start = block.next = start;
    block.start.step = start.window * block_steps(step_rows_);
    const std::int64_t wanted = step_rows_ * block_steps(step_rows_);
    for (ClickRow row; block.rows() < wanted && next_row(row);) block.add(row, *dataset_->map());
    if (block.rows() == 0) fail_input("[data] the checkpoint's position lies behind the end of the data");
    advance(block);
    return block;
  }

 private:
  struct Cancelled {};

  const std::string& file(std::int64_t index, std::int64_t epoch) const {
    const auto& files = dataset_->files();
    const Permutation order(std::ssize(files),
                            Random(options_.seed, static_cast<std::uint64_t>(epoch), Purpose::files));
    return files[static_cast<std::size_t>(options_.shuffle ? order(index) : index)];
  }

  void open(std::int64_t epoch, std::int64_t index, std::int64_t offset, std::int64_t line) {
    if (index < 0 || index >= std::ssize(dataset_->files()))
      fail_input("[data] the checkpoint's position lies behind the last file; the data has changed");
    reader_ = std::make_unique<ClickReader>(file(index, epoch), dataset_->schema(), ClickReader::Labels::required,
                                            static_cast<std::uint64_t>(offset), line);
    file_ = index, epoch_ = epoch;
  }

  // Continues at the end of the last block, or opens the file of any other position again.
  void seek(const LoaderState& start) {
    if (reader_ && start.epoch == epoch_ && start.samples == samples_) return;
    open(start.epoch, start.file, start.offset, start.line);
    samples_ = start.samples;
  }

  bool next_row(ClickRow& row) {
    if (cancelled_) throw Cancelled();
    while (!reader_->next(row)) {
      if (file_ + 1 == std::ssize(dataset_->files())) return false;
      open(epoch_, file_ + 1, 0, 0);
    }
    ++samples_;
    return true;
  }

  void advance(ClickBlock& block) {
    LoaderState& next = block.next;
    next.samples = samples_;
    const bool last = samples_ >= (block.start.epoch + 1) * dataset_->size();
    next.epoch += last;
    next.window = last ? 0 : block.start.window + 1;
    next.step = next.window * block_steps(step_rows_);
    next.file = last ? 0 : file_;
    next.offset = last ? 0 : static_cast<std::int64_t>(reader_->lines().offset());
    next.line = last ? 0 : reader_->lines().lines_before();
    if (last) reader_.reset();
  }

  std::shared_ptr<const ClickDataset> dataset_;
  LoaderOptions options_;
  std::int64_t step_rows_;
  std::atomic<bool> cancelled_ = false;
  std::unique_ptr<ClickReader> reader_;
  std::int64_t file_ = 0, epoch_ = 0, samples_ = 0;  // samples_: global number of the next row
};

class ClickLoader final : public Loader {
 public:
  ClickLoader(std::shared_ptr<const ClickDataset> dataset, const LoaderOptions& options, const LoaderState& state)
      : dataset_(dataset),
        options_(options),
        position_(state),
        prefetch_(std::make_unique<BlockSource>(std::move(dataset), options), state, !options.shuffle, options.stops) {
    skip_ = state.step - state.window * block_steps(step_rows());
    if (skip_ < 0)
      fail_input("[data] the checkpoint's position contradicts itself: step {} in block {}", state.step, state.window);
  }

  bool next(std::span<Batch> parts) override {
    COMERA_CHECK(static_cast<std::int64_t>(parts.size()) == options_.accumulate);
    if (options_.stops) check_stop();
    if (used_ == order_.size() && !take_block()) return false;
    const std::size_t begin = used_;
    used_ = std::min(begin + static_cast<std::size_t>(step_rows()), order_.size());
    const std::span<const std::int64_t> step(order_.data() + begin, used_ - begin);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::size_t from = std::min(step.size(), i * static_cast<std::size_t>(options_.batch));
      const std::size_t to = std::min(step.size(), from + static_cast<std::size_t>(options_.batch));
      collate_clicks(block_, step.subspan(from, to - from), dataset_->schema(), block_.start.samples, parts[i]);
    }
    const bool block_ended = used_ == order_.size();
    epoch_ended_ = block_ended && block_.next.epoch != block_.start.epoch;
    position_ = block_ended ? block_.next : block_.start;
    if (!block_ended) position_.step += static_cast<std::int64_t>(used_) / step_rows();
    return true;
  }

  LoaderState state() const override { return position_; }
  Reach reach() const override {
    const std::int64_t samples = block_.start.samples + static_cast<std::int64_t>(used_);
    return {samples - block_.start.epoch * dataset_->size(), dataset_->size()};
  }
  bool epoch_ended() const override { return epoch_ended_; }
  std::int64_t steps_per_epoch() const override { return (dataset_->size() + step_rows() - 1) / step_rows(); }
  double waited_ms() const override { return waited_ms_; }
  std::int64_t longest() const override { return 1; }

 private:
  std::int64_t step_rows() const { return options_.batch * options_.accumulate; }

  bool take_block() {
    const auto start = std::chrono::steady_clock::now();
    const bool any = prefetch_.take(block_);
    waited_ms_ += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    if (!any) return false;
    order_.resize(static_cast<std::size_t>(block_.rows()));
    std::iota(order_.begin(), order_.end(), 0);
    if (options_.shuffle) {
      const Random random(options_.seed, static_cast<std::uint64_t>(block_.start.epoch), Purpose::rows);
      const Permutation mixed(block_.rows(), random, static_cast<std::uint64_t>(block_.start.window));
      for (std::size_t i = 0; i < order_.size(); ++i) order_[i] = mixed(static_cast<std::int64_t>(i));
    }
    used_ = static_cast<std::size_t>(skip_ * step_rows());
    skip_ = 0;
    if (used_ >= order_.size())
      fail_input("[data] the checkpoint's position lies behind the end of the data; the data has changed");
    return true;
  }

  std::shared_ptr<const ClickDataset> dataset_;
  LoaderOptions options_;
  LoaderState position_;
  ClickBlock block_;
  std::vector<std::int64_t> order_;  // of the block's rows
  std::size_t used_ = 0;             // rows of the block that were returned
  std::int64_t skip_ = 0;            // steps of the next block that were returned before the checkpoint
  bool epoch_ended_ = false;
  double waited_ms_ = 0;
  Prefetch<BlockSource, ClickBlock> prefetch_;
};

}  // namespace

std::unique_ptr<Loader> open_click_loader(std::shared_ptr<const ClickDataset> dataset, const LoaderOptions& options,
                                          const LoaderState& state) {
  return std::make_unique<ClickLoader>(std::move(dataset), options, state);
}

}  // namespace comera::data
