#include "lib/data/corpus.h"

#include <algorithm>

#include "lib/core/error.h"
#include "lib/core/file.h"
#include "lib/data/random.h"

namespace comera::data {

Corpus::Corpus(const FileDataset& dataset, const LoaderOptions& options, const LoaderState& start)
    : dataset_(dataset), file_(start.file), inside_(start.inside != 0) {
  const auto count = static_cast<std::int64_t>(dataset.files().size());
  const Permutation order(count, Random(options.seed, static_cast<std::uint64_t>(start.epoch), Purpose::files));
  for (std::int64_t i = 0; i < count; ++i) order_.push_back(static_cast<std::size_t>(options.shuffle ? order(i) : i));
  if (file_ < 0 || file_ >= count) fail_input("[data] the checkpoint's position lies behind the last file; the data has changed");
  reader_.emplace(path(), static_cast<std::uint64_t>(start.offset), start.line);
}

bool Corpus::next(Piece& piece) {
  for (;;) {
    piece.file = file_;
    piece.offset = static_cast<std::int64_t>(reader_->offset());
    piece.line = reader_->line();
    piece.text.clear();
    piece.inside = piece.ends_document = false;
    const bool documents = dataset_.spec().task == Task::clm && format_of(path()) != Format::jsonl;
    if (documents ? read_document(piece) : read(piece)) return true;
    if (file_ + 1 == static_cast<std::int64_t>(order_.size())) return false;
    ++file_;
    reader_.emplace(path());
    piece.ends_document = true;
    return true;
  }
}

bool Corpus::read(Piece& piece) {
  std::string_view line;
  if (!reader_->next(line)) return false;
  take(line, piece);
  return true;
}

// All lines up to a form feed or the end of the file, as they stand but for the last end of a line.
bool Corpus::read_document(Piece& piece) {
  std::string_view line;
  bool any = false;
  piece.inside = inside_;
  while (piece.text.size() < longest_piece) {
    if (!reader_->next(line)) {
      inside_ = false;
      piece.ends_document = any || piece.inside;
      return piece.ends_document;
    }
    piece.ends_document = line == "\f";
    if (piece.ends_document) break;
    if (any) piece.text += '\n';
    piece.text += line;
    any = true;
  }
  inside_ = !piece.ends_document;
  if (inside_) piece.text += '\n';
  return true;
}

void Corpus::take(std::string_view line, Piece& piece) const {
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

std::size_t tokenising_bytes(const Dataset& dataset, int threads) {
  if (dataset.spec().task != Task::clm) return 0;
  std::size_t longest = 0;
  for (const std::string& path : dataset.files()) {
    const Format format = format_of(path);
    if (format == Format::jsonl) continue;
    const bool plain = !path.ends_with(".gz") && !path.ends_with(".zst");
    longest = std::max(longest, plain ? std::min<std::size_t>(file_size(path), Corpus::longest_piece) : Corpus::longest_piece);
  }
  return longest * Corpus::tokenising_factor * static_cast<std::size_t>(threads);
}

}  // namespace comera::data
