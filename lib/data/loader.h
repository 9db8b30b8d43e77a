// From files to batches. A Dataset says what there is (files, labels, hashes); a Loader hands out steps of
// micro-batches.
//
// What a step holds depends on (files, tokenizer, spec, seed, epoch, step in the epoch) alone, never on threads or
// timing.
//
// classify, regression, embed: all rows are indexed in memory (text, not ids). Each epoch is one permutation of the
// rows, drawn by counter from (seed,
//   epoch); the permuted rows are cut into windows of whole steps, each window is tokenised, sorted by length, cut into
//   steps, and the steps of the window are shuffled. Nothing is dropped: the last step of an epoch may be smaller.
//   Without labels, text files have a row per line that is not blank.
// mlm: files are streamed (order of files drawn by counter per epoch), lines are packed into sequences of max_length
// tokens, and windows
//   of sequences are shuffled and bucketed in the same way. Memory is bounded by the window, whatever the size of the
//   corpus. A document ends at a row of a table, at a line that holds only a form feed, and at the end of a file; [SEP]
//   stands between documents.
// clm: as mlm, but a document is tokenised as a whole, line ends included (one of more than 256 KiB in parts, cut at
// line ends, or where a
//   line is longer at a blank), and stands
//   between the tokenizer's begin and end pieces. Documents are packed one behind another and go on in the next
//   sequence; each sees only itself, and its positions start at 0, so that it is computed as it would be alone. Every
//   token but the first is predicted, once.
// Evaluation (`shuffle` off): rows or sequences in the order of the files, one pass.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/core/task_progress.h"
#include "lib/data/batch.h"
#include "lib/data/format.h"
#include "lib/data/tokenizer.h"

namespace comera::data {

enum class Task : std::uint8_t { classify, mlm, clm, embed, regression };
const char* name_of(Task task);
constexpr bool predicts_words(Task task) { return task == Task::mlm || task == Task::clm; }
constexpr bool learns_labels(Task task) { return task == Task::classify || task == Task::regression; }

struct DataSpec {
  std::vector<std::string> files;  // paths or globs: text, CSV, TSV, JSONL; each plain, .gz or .zst
  std::optional<Format> format;    // of all files; none: by their names
  Task task = Task::classify;
  std::vector<std::string> text;  // names of one or two columns of a table (mlm, clm: of one; default "text")
  bool text_asked = true;         // false: `text` is what another data set had; a text file is taken as it is
  std::string label;  // column of the label: a class, or a number (regression); empty: no labels, every label is -1,
                      // every score NaN
  std::int64_t max_length = 128;  // tokens per sequence, specials included
  bool ends = true;               // clm: the tokenizer's end piece stands behind every document
};

struct LoaderOptions {
  std::int64_t batch = 32;  // sequences per micro-batch
  std::int64_t accumulate =
      1;  // micro-batches per step; a step is the same batch * accumulate sequences however it is split
  std::uint64_t seed = 0;
  bool shuffle = true;  // false: evaluation, in order, one epoch
  double mask_probability = 0.15;
  std::int64_t stride = 0;  // clm, evaluation: windows of max_length tokens every `stride` tokens of a document, which
                            // count what no window before did (0: packed as for training)
  int threads = 1;          // that tokenise ahead; results do not depend on it
  bool stops = false;       // next() gives up with Stopped where a signal came
};

// The files and their labels. Classify data is read, checked (UTF-8, columns, labels) and indexed here; mlm and clm
// data while it is streamed.
class Dataset {
 public:
  // `labels`: of the training data or the model, in order; empty: taken from these files. Taken labels are sorted: as
  // numbers when all of them are integers, else by their bytes.
  static std::shared_ptr<const Dataset> open(const DataSpec& spec, std::shared_ptr<const Tokenizer> tokenizer,
                                             std::vector<std::string> labels = {});
  // Rows that are already in memory: texts[i] is one or two strings. For `predict` and tests.
  static std::shared_ptr<const Dataset> from_rows(const DataSpec& spec, std::shared_ptr<const Tokenizer> tokenizer,
                                                  const std::vector<std::vector<std::string>>& texts,
                                                  const std::vector<std::int32_t>& labels,
                                                  std::vector<std::string> names);
  virtual ~Dataset() = default;

  virtual const DataSpec& spec() const = 0;
  virtual const Tokenizer& tokenizer() const = 0;
  virtual const std::vector<std::string>& labels() const = 0;
  virtual std::int64_t size() const = 0;  // rows; 0 for streamed data, whose size is not known before it was read
  virtual const std::vector<std::string>& files() const = 0;  // globs resolved, sorted within each glob
  // 32 hexadecimal digits: of whole files up to 64 MiB each, of size, first and last 4 MiB of larger ones.
  virtual const std::string& hash() const = 0;
  // Rows (classify, regression, embed): the first or second text; the label's index or -1; regression: the number, NaN
  // where there is none.
  virtual std::string_view text(std::int64_t row, int which) const = 0;
  virtual std::int32_t label(std::int64_t row) const = 0;
  virtual float score(std::int64_t row) const = 0;
  // The label's index, or an input error that lists the known ones.
  virtual std::int32_t label_index(std::string_view label) const = 0;
};

// How far a pass over the data has come.
struct Reach {
  std::int64_t done = 0, of = 0;  // of 0: not known
  TaskUnit unit = TaskUnit::count;
};

// The position of a loader: the next step that it will give. Written into checkpoints as one line of JSON.
struct LoaderState {
  std::int64_t epoch = 0;
  std::int64_t step = 0;     // in this epoch
  std::int64_t window = 0;   // in this epoch
  std::int64_t samples = 0;  // global number of the window's first sample
  // mlm, clm: where the window's text begins: file (in this epoch's order), byte and line in the unpacked file, tokens
  // of that line (clm: of that document, or part of one: `inside`) already used.
  std::int64_t file = 0, offset = 0, line = 0, token = 0, inside = 0;

  std::string to_json() const;
  static LoaderState from_json(std::string_view json);
};

class Loader {
 public:
  static std::unique_ptr<Loader> open(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options,
                                      const LoaderState& state = {});
  virtual ~Loader() = default;

  // Fills the micro-batches of the next step; parts.size() must equal `accumulate`. A short last step leaves later
  // parts with sequences == 0. False (nothing filled) at the end of an evaluation pass; training goes on to the next
  // epoch and is never false. Errors of the reader threads (files, lines) are thrown here.
  virtual bool next(std::span<Batch> parts) = 0;
  bool next(Batch& batch) { return next(std::span<Batch>(&batch, 1)); }  // for accumulate == 1

  virtual LoaderState state() const = 0;             // of the next step
  virtual Reach reach() const = 0;                   // evaluation: rows handed out, or bytes of the files
  virtual bool epoch_ended() const = 0;              // the step handed out last closed its epoch
  virtual std::int64_t steps_per_epoch() const = 0;  // 0: not known (streamed data)
  virtual double waited_ms() const = 0;              // time that next() was blocked on the readers, in total
  // The longest padded length that a batch can have: what to plan memory for.
  virtual std::int64_t longest() const = 0;
};

}  // namespace comera::data
