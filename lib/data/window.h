// A window holds the tokenised sequences of several whole steps, in the order in which the loader returns the steps.
// It is a pure function of the data set, the options and the state at its start.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "lib/data/dataset.h"
#include "lib/data/loader.h"

namespace comera::data {

struct Sequence {
  std::size_t begin = 0;    // index in Window::ids
  std::int32_t length = 0;  // specials included
  std::int32_t second = 0;  // position at which token type 1 begins, pairs: the second text; `length` if there is none
  std::int32_t label = -1;  // multilabel: number of the set
  float score = Table::no_score;
  std::int32_t counted_from = 0;  // clm: the first position whose prediction counts
  std::int32_t next = -1;         // clm: the token after the last one, if its document continues
  std::int64_t sample = 0;
};

struct Window {
  Ids ids;
  std::vector<Sequence> sequences;
  Task task = Task::classify;
  const Table* table = nullptr;        // multilabel: has the sets of labels
  std::vector<std::int32_t> tags;      // tag: parallel to `ids`, as the batch's word_labels
  std::vector<std::uint8_t> answers;   // conversations: parallel to `ids`, 1 for what is predicted; else empty
  std::vector<std::size_t> documents;  // clm: indices in `ids` at which a document begins, ascending
  LoaderState start, next;             // `next.epoch` differs from `start.epoch` if this window ends the epoch
  std::int64_t used_bytes = 0;  // words: about so many bytes of the text at `next` are in this or earlier windows
};

// Sizes that the windows of a run follow from.
struct StepSize {
  std::int64_t sequences = 1;  // of a step
  std::int64_t length = 1;     // tokens of the longest sequence
};
// Number of steps in window number `window`. The first windows have few steps, so that the first step does not wait
// long. The number grows up to 8,192 sequences or 2^20 tokens per window, whichever is less, because a window and the
// next ones are in memory.
std::int64_t window_steps(StepSize step, std::int64_t window);
std::int64_t steps_before(StepSize step, std::int64_t window);

class WindowSource {
 public:
  WindowSource(std::shared_ptr<const FileDataset> dataset, const LoaderOptions& options)
      : dataset_(std::move(dataset)), options_(options) {}
  virtual ~WindowSource() = default;
  virtual Window build(const LoaderState& start) = 0;
  void cancel() { cancelled_ = true; }  // for another thread; a running build() ends by an exception

 protected:
  struct Cancelled {};
  StepSize step_size() const { return {options_.batch * options_.accumulate, dataset_->spec().max_length}; }
  // Shuffles: sequences in random order, sorted by length (ties keep that order), cut into steps, full steps in random
  // order.
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
// `parts`: LoaderState::parts. Reads the files once if it is set and the options shuffle.
std::unique_ptr<WindowSource> stream_source(std::shared_ptr<const FileDataset> dataset, const LoaderOptions& options,
                                            bool parts);

// Runs body(begin, end) over [0, count), one contiguous part per thread. Rethrows the error of the first part that
// failed.
void in_parts(int threads, std::int64_t count, const std::function<void(std::int64_t, std::int64_t)>& body);

// Trims the lengths of two texts of `first` and `second` tokens until both fit into `room`: the longer one, or both to
// half of the room, the odd token to the longer one, to the second if they are equal. This is `longest_first` of
// Hugging Face's tokenizers (truncate_encodings in tokenizers/src/utils/truncation.rs).
void trim_pair(std::int64_t room, std::int64_t& first, std::int64_t& second);

}  // namespace comera::data
