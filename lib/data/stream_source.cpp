// Window source for corpora of any size. It reads lines or documents in the epoch's order of blocks, tokenises them and
// packs them into sequences of max_length tokens.
#include <algorithm>
#include <atomic>
#include <deque>
#include <optional>

#include "lib/core/error.h"
#include "lib/core/memory.h"
#include "lib/core/terminal/log.h"
#include "lib/data/chat/chat_template.h"
#include "lib/data/corpus.h"
#include "lib/data/window.h"

namespace comera::data {
namespace {

class StreamSource final : public WindowSource {
 public:
  StreamSource(std::shared_ptr<const FileDataset> dataset, const LoaderOptions& options, bool parts)
      : WindowSource(std::move(dataset), options),
        blocks_(options.shuffle && parts ? cut_into_blocks(*dataset_) : whole_files(*dataset_)) {}

  Window build(const LoaderState& start) override {
    seek(start);
    Window window;
    window.start = window.next = start;
    window.task = dataset_->spec().task;
    window.start.step = steps_before(step_size(), start.window);
    const std::int64_t wanted = step_size().sequences * window_steps(step_size(), start.window);
    // Unused pages of it take no memory; growth by doublings would.
    window.ids.reserve(static_cast<std::size_t>(wanted * step_size().length));
    while (static_cast<std::int64_t>(window.sequences.size()) < wanted && pack(window)) continue;
    if (window.sequences.empty()) fail_input("[data] {}: holds no text to learn from", dataset_->files().front());
    advance(window, !more());
    arrange(window);
    return window;
  }

 private:
  // Continues at the end of the last window. For any other position the files are opened again.
  void seek(const LoaderState& start) {
    if (corpus_ && start.epoch == position_.epoch && start.samples == position_.samples) return;
    corpus_.emplace(*dataset_, blocks_, options_, start);
    pieces_.clear();
    ended_ = false;
    token_ = start.token;
    document_ended_ = false;
    if (more_pieces() && token_ > static_cast<std::int64_t>(pieces_.front().ids.size()))
      fail_input("[data] the checkpoint's position lies outside its line; the data or the tokenizer has changed");
  }

  // Reads and tokenises about half a MiB of text. Returns false at the end of the epoch.
  bool more_pieces() {
    constexpr std::size_t enough = std::size_t{1} << 19;
    std::vector<Piece> fresh;
    Piece piece;
    for (std::size_t bytes = 0; bytes < enough && !ended_; bytes += piece.text.size() + piece.first.size() + 1) {
      ended_ = !corpus_->next(piece);
      if (!ended_) fresh.push_back(piece);
    }
    in_parts(options_.threads, static_cast<std::int64_t>(fresh.size()), [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t i = from; i < to; ++i) {
        check_cancelled();
        Piece& one = fresh[static_cast<std::size_t>(i)];
        one.bytes = std::ssize(one.text);
        clm() ? encode_document(one) : encode_text(one);
        one.text = one.first = {};
      }
    });
    // Kept ids lie between the many small blocks that the tokenizer has freed, so the heaps do not shrink by
    // themselves.
    trim_freed_memory();
    const bool any = !fresh.empty();
    std::move(fresh.begin(), fresh.end(), std::back_inserter(pieces_));
    return any;
  }

  bool clm() const { return dataset_->spec().task == Task::clm; }
  bool pair() const { return dataset_->spec().text.size() > 1; }

  void encode_text(Piece& piece) const {
    dataset_->tokenizer().encode(piece.text, piece.ids);
    if (!pair()) return;
    const auto most = static_cast<std::size_t>(first_tokens(dataset_->spec()));
    dataset_->tokenizer().encode_start(piece.first, most, piece.first_ids);
    piece.first_ids.resize(std::min(piece.first_ids.size(), most));
  }

  void encode_conversation_of(Piece& piece) {
    const ChatTemplate& chat = *dataset_->spec().chat;
    const Conversation conversation = chat.conversation(parse_messages(piece.text, piece.place));
    if (conversation.whole && !told_whole_.exchange(true))
      log_info(
          "{}: the chat template does not tell what the assistant wrote, so all tokens of such a conversation are "
          "learned",
          piece.place);
    ConversationIds made = encode_conversation(conversation, dataset_->tokenizer());
    piece.ids = std::move(made.ids);
    piece.answers = std::move(made.answers);
  }

  // Encodes a document between the tokenizer's begin and end pieces. A document without text is skipped.
  void encode_document(Piece& piece) {
    if (dataset_->spec().chat && !piece.text.empty()) return encode_conversation_of(piece);
    if (!piece.inside && piece.text.find_first_not_of(" \t\n") == std::string::npos) return;
    const Specials& specials = dataset_->tokenizer().specials();
    if (!piece.inside && specials.begin >= 0) piece.ids.push_back(specials.begin);
    dataset_->tokenizer().encode(piece.text, piece.ids);
    if (piece.ends_document && dataset_->spec().ends && specials.end >= 0) piece.ids.push_back(specials.end);
  }

  // True while the epoch has a token left. Drops pieces that are used up.
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

  // Packs one sequence. Returns false at the end of the epoch.
  bool pack(Window& window) {
    if (!more()) return false;
    Sequence sequence;
    sequence.begin = window.ids.size();
    sequence.sample = window.start.samples + static_cast<std::int64_t>(window.sequences.size());
    if (pair())
      pack_pair(window, sequence);
    else if (!clm())
      pack_lines(window);
    else if (options_.stride == 0)
      pack_documents(window, sequence);
    else
      take_window(window, sequence);
    sequence.length = static_cast<std::int32_t>(window.ids.size() - sequence.begin);
    if (sequence.second == 0) sequence.second = sequence.length;
    window.sequences.push_back(sequence);
    return true;
  }

  // Appends up to `count` tokens of the front piece to the window. Returns their number.
  std::int64_t take_tokens(Window& window, std::int64_t count) {
    const Ids& ids = pieces_.front().ids;
    count = std::min(count, static_cast<std::int64_t>(ids.size()) - token_);
    window.ids.insert(window.ids.end(), ids.begin() + token_, ids.begin() + token_ + count);
    const std::vector<std::uint8_t>& answers = pieces_.front().answers;
    if (!answers.empty())
      window.answers.insert(window.answers.end(), answers.begin() + token_, answers.begin() + token_ + count);
    token_ += count;
    return count;
  }

  // Packs max_length tokens of consecutive documents.
  void pack_documents(Window& window, Sequence& sequence) {
    window.documents.push_back(window.ids.size());
    for (std::int64_t room = dataset_->spec().max_length; room > 0 && more();) {
      const bool begins = token_ == 0 && !goes_on(pieces_.front());
      if (begins && window.ids.size() > window.documents.back()) window.documents.push_back(window.ids.size());
      room -= take_tokens(window, room);
    }
    if (more() && (token_ > 0 || goes_on(pieces_.front()))) sequence.next = next_to_predict();
  }

  // The piece follows the one before it in the same document.
  static bool goes_on(const Piece& piece) { return piece.inside && !piece.apart; }

  // The next token; -1 if it is not predicted.
  std::int32_t next_to_predict() const {
    const auto at = static_cast<std::size_t>(token_);
    const Piece& piece = pieces_.front();
    return piece.answers.empty() || piece.answers[at] != 0 ? piece.ids[at] : -1;
  }

  // Takes a window of one document. The next one begins `stride` tokens later.
  void take_window(Window& window, Sequence& sequence) {
    const std::int64_t begin = token_, length = dataset_->spec().max_length;
    window.documents.push_back(window.ids.size());
    take_tokens(window, length);
    if (begin > 0) sequence.counted_from = static_cast<std::int32_t>(length - std::min(options_.stride, length) - 1);
    sequence.counted_from = std::max(sequence.counted_from, 0);
    if (token_ < static_cast<std::int64_t>(pieces_.front().ids.size()))
      token_ = begin + std::min(options_.stride, length);
  }

  // Packs one sequence: [CLS] tokens [SEP], with [SEP] between documents.
  void pack_lines(Window& window) {
    const Specials& specials = dataset_->tokenizer().specials();
    const std::int64_t room = dataset_->spec().max_length - 2;
    window.ids.push_back(specials.cls);
    document_ended_ = false;
    for (std::int64_t used = 0; used < room && more();) {
      if (document_ended_ && used > 0) {
        if (used + 2 > room) break;  // no space for a token after the [SEP]
        window.ids.push_back(specials.sep);
        ++used;
      }
      document_ended_ = false;
      used += take_tokens(window, room - used);
    }
    window.ids.push_back(specials.sep);
  }

  // Packs one sequence: [CLS] first [SEP] second [SEP], with as much of the second text as fits. A first text without
  // tokens is left out.
  void pack_pair(Window& window, Sequence& sequence) {
    const Specials& specials = dataset_->tokenizer().specials();
    const Ids& first = pieces_.front().first_ids;
    std::int64_t room = dataset_->spec().max_length - 2;
    window.ids.push_back(specials.cls);
    if (!first.empty()) {
      window.ids.insert(window.ids.end(), first.begin(), first.end());
      window.ids.insert(window.ids.end(), static_cast<std::size_t>(specials.separators), specials.sep);
      room -= std::ssize(first) + specials.separators;
      if (specials.second_type) sequence.second = static_cast<std::int32_t>(window.ids.size() - sequence.begin);
    }
    take_tokens(window, room);
    window.ids.push_back(specials.sep);
  }

  void advance(Window& window, bool last) {
    LoaderState& next = window.next;
    next.samples += static_cast<std::int64_t>(window.sequences.size());
    next.window = last ? 0 : window.start.window + 1;
    next.step = steps_before(step_size(), next.window);
    next.file = next.offset = next.line = next.token = next.inside = 0;
    if (last) {
      ++next.epoch;
    } else {
      const Piece& piece = pieces_.front();
      next.file = piece.block;
      next.offset = piece.offset;
      next.line = piece.line;
      next.token = token_;
      next.inside = piece.inside;
      window.used_bytes = piece.bytes * token_ / std::max<std::int64_t>(std::ssize(piece.ids), 1);
    }
    position_ = next;
    if (last) corpus_.reset();
  }

  std::vector<Block> blocks_;
  std::optional<Corpus> corpus_;
  std::deque<Piece> pieces_;     // read and tokenised, but not packed yet
  std::int64_t token_ = 0;       // used tokens of the front piece
  bool document_ended_ = false;  // a document ended between the last packed token and the next one
  bool ended_ = false;
  LoaderState position_;
  std::atomic<bool> told_whole_ = false;
};

}  // namespace

std::unique_ptr<WindowSource> stream_source(std::shared_ptr<const FileDataset> dataset, const LoaderOptions& options,
                                            bool parts) {
  return std::make_unique<StreamSource>(std::move(dataset), options, parts);
}

}  // namespace comera::data
