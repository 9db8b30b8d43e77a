// Corpora of any size: lines are read in the epoch's order of files, tokenised, and packed into sequences of max_length tokens.
#include <algorithm>
#include <deque>
#include <optional>

#include "lib/core/error.h"
#include "lib/data/byte_stream.h"
#include "lib/data/random.h"
#include "lib/data/window.h"

namespace comera::data {
namespace {

// A line and where it lies, so that packing can start again at any of its tokens.
struct Piece {
  std::int64_t file = 0, offset = 0, line = 0;  // offset and number of lines before it
  std::string text;
  bool ends_document = false;
  Ids ids;
};

// The lines of an epoch in order.
class Corpus {
 public:
  Corpus(const FileDataset& dataset, const LoaderOptions& options, const LoaderState& start) : dataset_(dataset), file_(start.file) {
    const auto count = static_cast<std::int64_t>(dataset.files().size());
    const Permutation order(count, Random(options.seed, static_cast<std::uint64_t>(start.epoch), Purpose::files));
    for (std::int64_t i = 0; i < count; ++i) order_.push_back(static_cast<std::size_t>(options.shuffle ? order(i) : i));
    if (file_ < 0 || file_ >= count) fail_input("[data] the checkpoint's position lies behind the last file; the data has changed");
    reader_.emplace(path(), static_cast<std::uint64_t>(start.offset), start.line);
  }

  // False at the end of the epoch. A line that only ends a document comes as an empty piece.
  bool next(Piece& piece) {
    for (;;) {
      piece.file = file_;
      piece.offset = static_cast<std::int64_t>(reader_->offset());
      piece.line = reader_->line();
      std::string_view line;
      if (reader_->next(line)) return take(line, piece), true;
      if (file_ + 1 == static_cast<std::int64_t>(order_.size())) return false;
      ++file_;
      reader_.emplace(path());
      piece.text.clear();
      piece.ends_document = true;
      return true;
    }
  }

 private:
  const std::string& path() const { return dataset_.files()[order_[static_cast<std::size_t>(file_)]]; }

  void take(std::string_view line, Piece& piece) const {
    piece.text.clear();
    piece.ends_document = line == "\f";
    if (piece.ends_document) return;
    const bool json = format_of(path()) == Format::jsonl;
    if (json && !line.empty()) {
      piece.text = json_text(line, dataset_.spec().text[0], path(), reader_->line());
      piece.ends_document = true;
    } else {
      piece.text = line;
    }
  }

  const FileDataset& dataset_;
  std::vector<std::size_t> order_;
  std::int64_t file_;
  std::optional<LineReader> reader_;
};

class StreamSource final : public WindowSource {
 public:
  using WindowSource::WindowSource;

  Window build(const LoaderState& start) override {
    seek(start);
    Window window;
    window.start = window.next = start;
    window.start.step = steps_before(step_sequences(), start.window);
    const std::int64_t wanted = step_sequences() * window_steps(step_sequences(), start.window);
    while (static_cast<std::int64_t>(window.sequences.size()) < wanted && pack(window)) continue;
    if (window.sequences.empty()) fail_input("[data] {}: holds no text to learn from", dataset_->files().front());
    advance(window, !more());
    arrange(window);
    return window;
  }

 private:
  // Reading goes on where the last window ended; anywhere else the files are opened again.
  void seek(const LoaderState& start) {
    if (corpus_ && start.epoch == position_.epoch && start.samples == position_.samples) return;
    corpus_.emplace(*dataset_, options_, start);
    pieces_.clear();
    ended_ = false;
    token_ = start.token;
    document_ended_ = false;
    if (more_pieces() && token_ > static_cast<std::int64_t>(pieces_.front().ids.size()))
      fail_input("[data] the checkpoint's position lies outside its line; the data or the tokenizer has changed");
  }

  // Reads and tokenises about half a MiB of text; false at the end of the epoch.
  bool more_pieces() {
    constexpr std::size_t enough = std::size_t{1} << 19;
    std::vector<Piece> fresh;
    Piece piece;
    for (std::size_t bytes = 0; bytes < enough && !ended_; bytes += piece.text.size() + 1) {
      ended_ = !corpus_->next(piece);
      if (!ended_) fresh.push_back(piece);
    }
    in_parts(options_.threads, static_cast<std::int64_t>(fresh.size()), [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t i = from; i < to; ++i) {
        Piece& one = fresh[static_cast<std::size_t>(i)];
        dataset_->tokenizer().encode(one.text, one.ids);
        one.text = {};
      }
    });
    const bool any = !fresh.empty();
    std::move(fresh.begin(), fresh.end(), std::back_inserter(pieces_));
    return any;
  }

  // Whether the epoch has a token left; drops what is used up.
  bool more() {
    for (;;) {
      while (!pieces_.empty() && token_ >= static_cast<std::int64_t>(pieces_.front().ids.size())) {
        document_ended_ = document_ended_ || pieces_.front().ends_document;
        pieces_.pop_front();
        token_ = 0;
      }
      if (!pieces_.empty()) return true;
      if (!more_pieces()) return false;
    }
  }

  // One sequence: [CLS] tokens [SEP], with [SEP] between documents. False at the end of the epoch.
  bool pack(Window& window) {
    if (!more()) return false;
    const Specials& specials = dataset_->tokenizer().specials();
    const std::int64_t room = dataset_->spec().max_length - 2;
    Sequence sequence;
    sequence.begin = window.ids.size();
    sequence.sample = window.start.samples + static_cast<std::int64_t>(window.sequences.size());
    window.ids.push_back(specials.cls);
    document_ended_ = false;
    for (std::int64_t used = 0; used < room && more();) {
      if (document_ended_ && used > 0) {
        if (used + 2 > room) break;  // no room for a token behind the [SEP]
        window.ids.push_back(specials.sep);
        ++used;
      }
      document_ended_ = false;
      const Ids& ids = pieces_.front().ids;
      const std::int64_t count = std::min(room - used, static_cast<std::int64_t>(ids.size()) - token_);
      window.ids.insert(window.ids.end(), ids.begin() + token_, ids.begin() + token_ + count);
      used += count;
      token_ += count;
    }
    window.ids.push_back(specials.sep);
    sequence.length = sequence.second = static_cast<std::int32_t>(window.ids.size() - sequence.begin);
    window.sequences.push_back(sequence);
    return true;
  }

  void advance(Window& window, bool last) {
    LoaderState& next = window.next;
    next.samples += static_cast<std::int64_t>(window.sequences.size());
    next.window = last ? 0 : window.start.window + 1;
    next.step = steps_before(step_sequences(), next.window);
    next.file = next.offset = next.line = next.token = 0;
    if (last) {
      ++next.epoch;
    } else {
      const Piece& piece = pieces_.front();
      next.file = piece.file;
      next.offset = piece.offset;
      next.line = piece.line;
      next.token = token_;
    }
    position_ = next;
    if (last) corpus_.reset();
  }

  std::optional<Corpus> corpus_;
  std::deque<Piece> pieces_;     // read and tokenised, not yet packed
  std::int64_t token_ = 0;       // used of the front piece
  bool document_ended_ = false;  // between the last packed token and the next one
  bool ended_ = false;
  LoaderState position_;
};

}  // namespace

std::unique_ptr<WindowSource> stream_source(std::shared_ptr<const FileDataset> dataset, const LoaderOptions& options) {
  return std::make_unique<StreamSource>(std::move(dataset), options);
}

}  // namespace comera::data
