// Reads files into batches. A Dataset describes the data (files, labels, hashes); a Loader returns steps of
// micro-batches.
//
// The content of a step depends on (files, tokenizer, spec, seed, epoch, step in the epoch) alone, never on threads or
// timing.
//
// classify, regression, embed: all rows are indexed in memory (text, not ids). Each epoch is one permutation of the
//   rows, drawn by counter from (seed, epoch). The permuted rows are cut into windows of whole steps. Each window is
//   tokenised, sorted by length and cut into steps, and the steps of the window are shuffled. Nothing is dropped: the
//   last step of an epoch may be smaller. Without labels, each line of a text file that is not blank is a row.
// mlm: files are streamed in blocks of at least 32 KiB (lib/data/blocks.h), whose order is drawn by counter per epoch.
//   Lines are packed into sequences of max_length tokens, and windows of sequences are shuffled and bucketed in the
//   same way. Memory is bounded by the window, for any size of the corpus. A packed file is one block. A document ends
//   at a row of a table, at a line that contains only a form feed, and at the end of a file or block. [SEP] separates
//   documents.
// clm: as mlm, but a document is tokenised as a whole, line ends included, between the tokenizer's begin and end
//   pieces. A document of more than 256 KiB is tokenised in parts, cut at line ends, or at a blank if a line is longer.
//   Documents are packed one after another and continue in the next sequence. Each attends only to itself and its
//   positions start at 0, so the result is the same as for the document alone. Every token except the first is
//   predicted exactly once. A document that a block cuts goes on elsewhere without the text before the cut and without
//   the begin piece.
//   With two columns (mlm), each row is a pair: [CLS] first [SEP] second [SEP], the first text cut to `first_length`
//   tokens. A second text that does not fit goes on in the next sequences, each with the first text again.
// multilabel, tag, pairs: rows as for classify. multilabel: labels of a text are separated by '|'. tag: words of a text
//   and their labels are separated by blanks. pairs: two texts that belong together, in a sequence each.
// ctr: rows of clicks are streamed in blocks of about 131,072 rows; the order of files is drawn per epoch, that of rows
//   within each block. A block is read again after a resume.
// image: each epoch is one permutation of the images. A step is decoded when its turn comes; its images are shifted and
//   mirrored by numbers that are drawn from (seed, epoch, number of the image).
// Evaluation (`shuffle` off): rows or sequences in the order of the files, one pass.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/core/terminal/task_progress.h"
#include "lib/data/batch.h"
#include "lib/data/files/format.h"
#include "lib/data/tokenizer/tokenizer.h"

namespace comera::data {

class ChatTemplate;  // lib/data/chat/chat_template.h

enum class Task : std::uint8_t { classify, mlm, clm, embed, regression, ctr, image, multilabel, tag, pairs };
const char* name_of(Task task);
constexpr bool predicts_words(Task task) { return task == Task::mlm || task == Task::clm; }
// Each text, word or image has exactly one class.
constexpr bool has_one_class(Task task) { return task == Task::classify || task == Task::tag || task == Task::image; }
constexpr bool has_classes(Task task) { return has_one_class(task) || task == Task::multilabel; }
// The task learns labels of texts, or numbers.
constexpr bool learns_labels(Task task) {
  return (has_classes(task) && task != Task::image) || task == Task::regression;
}
// The model gives one vector per text.
constexpr bool makes_vectors(Task task) { return task == Task::embed || task == Task::pairs; }

struct DataSpec {
  std::vector<std::string> files;  // paths or globs: text, CSV, TSV, JSONL; each plain, .gz or .zst
  std::optional<Format> format;    // of all files; none: by their names
  Task task = Task::classify;
  std::vector<std::string> text;  // one or two columns of a table (clm, tag: one; pairs: two; default "text")
  bool text_asked = true;         // false: `text` comes from another data set, so a text file is accepted
  // Column of the label: a class, or a number (regression). Empty: no labels, so every label is -1 and every score
  // NaN.
  std::string label;
  std::int64_t max_length = 128;  // tokens per sequence, specials included
  std::int64_t first_length = 0;  // mlm, two columns: most tokens of the first text; 0: a quarter of max_length
  bool ends = true;               // clm: the tokenizer's end piece follows every document
  // clm: each row of JSONL is a conversation (column "messages" if none is named), a document by this template. The
  // answers of the assistant are predicted, see ChatTemplate::conversation(). Null: rows are texts.
  std::shared_ptr<const ChatTemplate> chat = nullptr;
  std::string schema;                         // ctr: a schema file, "criteo", or "" for libFM files
  std::int64_t min_count = 0, hash_rows = 0;  // ctr: FeatureRules (lib/data/clicks/feature_map.h)
  // image, training: a shift of up to `crop` pixels along each axis, and a mirror image for half of the images.
  std::int64_t crop = 0;
  bool flip = false;
};

struct LoaderOptions {
  std::int64_t batch = 32;  // sequences per micro-batch
  std::int64_t accumulate =
      1;  // micro-batches per step; a step has the same batch * accumulate sequences for any split
  std::uint64_t seed = 0;
  bool shuffle = true;  // false: evaluation, in order, one epoch
  double mask_probability = 0.15;
  bool whole_words = false;  // mlm: all pieces of a word are masked, or none
  // Clm, evaluation: one window of max_length tokens every `stride` tokens of a document. A window counts only tokens
  // that no window before it counted (0: packed as for training).
  std::int64_t stride = 0;
  int threads = 1;     // threads that tokenise ahead; results do not depend on it
  bool stops = false;  // next() throws Stopped after a signal
};

class TextDataset;

// The files and their labels. Rows (classify, regression, embed) are read, checked (UTF-8, columns, labels) and
// indexed here. mlm and clm data are read while they are streamed.
class Dataset {
 public:
  // Text. `labels`: those of the training data or the model, in order. Empty: collected from these files and sorted, as
  // numbers if all of them are integers, else by their bytes. Clicks: ClickDataset::open(). Images:
  // ImageDataset::open().
  static std::shared_ptr<const TextDataset> open(const DataSpec& spec, std::shared_ptr<const Tokenizer> tokenizer,
                                                 std::vector<std::string> labels = {});
  // Rows in memory: texts[i] is one or two strings. For `predict` and tests.
  static std::shared_ptr<const TextDataset> from_rows(const DataSpec& spec, std::shared_ptr<const Tokenizer> tokenizer,
                                                      const std::vector<std::vector<std::string>>& texts,
                                                      const std::vector<std::int32_t>& labels,
                                                      std::vector<std::string> names);
  virtual ~Dataset() = default;

  virtual const DataSpec& spec() const = 0;
  virtual const std::vector<std::string>& labels() const = 0;
  virtual std::int64_t size() const = 0;  // rows; 0 for streamed data, whose size is unknown in advance
  virtual const std::vector<std::string>& files() const = 0;  // globs resolved, sorted within each glob
  // 32 hexadecimal digits over all stored bytes of the files (hash_files), or over the texts of rows in memory.
  virtual const std::string& hash() const = 0;
  // Writes what a model folder needs to read such data again: a tokenizer, the map of a table's rows, or the
  // form of images.
  virtual void save(const Folder& folder) const = 0;
};

// Opens every file of texts and reads its first row. Input errors: a missing or unreadable file, a format that is
// unknown or does not fit, a missing column, no row.
void check_files(const DataSpec& spec);

// Data whose inputs are texts.
class TextDataset : public Dataset {
 public:
  virtual const Tokenizer& tokenizer() const = 0;
  void save(const Folder& folder) const override { tokenizer().save(folder); }
  // Rows (classify, regression, embed): the first or second text, the label's index or -1, and for regression the
  // number, NaN if there is none.
  virtual std::string_view text(std::int64_t row, int which) const = 0;
  virtual std::int32_t label(std::int64_t row) const = 0;
  virtual float score(std::int64_t row) const = 0;
  // The label's index. An unknown label is an input error that lists the known ones.
  virtual std::int32_t label_index(std::string_view label) const = 0;
};

// Progress of a pass over the data.
struct Reach {
  std::int64_t done = 0, of = 0;  // of 0: unknown total
  TaskUnit unit = TaskUnit::count;
};

// The position of a loader: the next step that it returns. Stored in checkpoints as one line of JSON.
struct LoaderState {
  std::int64_t epoch = 0;
  std::int64_t step = 0;     // in this epoch
  std::int64_t window = 0;   // in this epoch
  std::int64_t samples = 0;  // global number of the window's first sample
  // mlm, clm: the position at which the window's text begins: file or block of one (in this epoch's order), byte and
  // line in the unpacked file, and tokens of that line already used (clm: of that document, or of a part of one if
  // `inside`). Offset 0: where the block begins.
  std::int64_t file = 0, offset = 0, line = 0, token = 0, inside = 0;
  // 1: the blocks are parts of files; 0: whole files, as in states that know no parts
  std::int64_t parts = 1;

  std::string to_json() const;
  static LoaderState from_json(std::string_view json);
};

class Loader {
 public:
  static std::unique_ptr<Loader> open(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options,
                                      const LoaderState& state = {});
  virtual ~Loader() = default;

  // Fills the micro-batches of the next step; parts.size() must equal `accumulate`. In a short last step, later parts
  // have sequences == 0. Returns false and fills nothing at the end of an evaluation pass. In training it continues
  // with the next epoch and never returns false. Rethrows errors of the reader threads (files, lines).
  virtual bool next(std::span<Batch> parts) = 0;
  bool next(Batch& batch) { return next(std::span<Batch>(&batch, 1)); }  // for accumulate == 1

  virtual LoaderState state() const = 0;             // of the next step
  virtual Reach reach() const = 0;                   // evaluation: rows returned, or bytes of the files
  virtual bool epoch_ended() const = 0;              // the last step returned was the last of its epoch
  virtual std::int64_t steps_per_epoch() const = 0;  // 0: unknown (streamed data)
  virtual double waited_ms() const = 0;              // total time that next() waited for the readers
  // The longest padded length of a batch, for planning memory.
  virtual std::int64_t longest() const = 0;
};

}  // namespace comera::data
