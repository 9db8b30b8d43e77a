// A window: the tokenised sequences of some whole steps, in the order in which the steps are handed out. A pure
// function of dataset, options and the state at its start.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "lib/data/dataset.h"
#include "lib/data/loader.h"

namespace comera::data {

struct Sequence {
  std::size_t begin = 0;    // in Window::ids
  std::int32_t length = 0;  // specials included
  std::int32_t second = 0;  // where token type 1 begins; `length` if nowhere
  std::int32_t label = -1;
  float score = Table::no_score;
  std::int32_t counted_from = 0;  // clm: the first position whose prediction counts
  std::int32_t next = -1;         // clm: the token behind the last one, where its document goes on
  std::int64_t sample = 0;
};

struct Window {
  Ids ids;
  std::vector<Sequence> sequences;
  bool scored = false;                 // regression: labels are numbers
  std::vector<std::size_t> documents;  // clm: where in `ids` a document begins, ascending
  LoaderState start, next;             // `next.epoch` differs from `start.epoch` when this window ends the epoch
};

// Steps of window number `window`: few in the first ones, so that the first step does not wait long, up to what 8,192
// sequences make.
std::int64_t window_steps(std::int64_t step_sequences, std::int64_t window);
std::int64_t steps_before(std::int64_t step_sequences, std::int64_t window);

class WindowSource {
 public:
  WindowSource(std::shared_ptr<const FileDataset> dataset, const LoaderOptions& options)
      : dataset_(std::move(dataset)), options_(options) {}
  virtual ~WindowSource() = default;
  virtual Window build(const LoaderState& start) = 0;
  void cancel() { cancelled_ = true; }  // from another thread: a build under way ends by an exception

 protected:
  struct Cancelled {};
  std::int64_t step_sequences() const { return options_.batch * options_.accumulate; }
  // Shuffling: sequences in random order, sorted by length (ties stay in that order), cut into steps, full steps in
  // random order.
  void arrange(Window& window) const;
  void check_cancelled() const {
    if (cancelled_) throw Cancelled();
  }

  std::shared_ptr<const FileDataset> dataset_;
  LoaderOptions options_;

 private:
  std::atomic<bool> cancelled_ = false;
};

std::unique_ptr<WindowSource> rows_source(std::shared_ptr<const FileDataset> dataset, const LoaderOptions& options);
std::unique_ptr<WindowSource> stream_source(std::shared_ptr<const FileDataset> dataset, const LoaderOptions& options);

// body(begin, end) over [0, count) in one contiguous part per thread. The error of the first part that has one is
// thrown.
void in_parts(int threads, std::int64_t count, const std::function<void(std::int64_t, std::int64_t)>& body);

// What is left of two texts of `first` and `second` tokens so that both fit into `room`: the last token of the longer
// one goes, of the first one where they are equal, until they do.
void trim_pair(std::int64_t room, std::int64_t& first, std::int64_t& second);

}  // namespace comera::data
