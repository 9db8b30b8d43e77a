#include "lib/data/corpus.h"

#include <algorithm>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/data/random.h"

namespace comera::data {

Corpus::Corpus(const FileDataset& dataset, const std::vector<Block>& blocks, const LoaderOptions& options,
               const LoaderState& start)
    : dataset_(dataset), blocks_(blocks), index_(start.file), inside_(start.inside != 0) {
  const auto count = std::ssize(blocks);
  const Permutation order(count, Random(options.seed, static_cast<std::uint64_t>(start.epoch), Purpose::files));
  for (std::int64_t i = 0; i < count; ++i) order_.push_back(static_cast<std::size_t>(options.shuffle ? order(i) : i));
  if (index_ < 0 || index_ >= count)
    fail_input("[data] the checkpoint's position lies behind the last file; the data has changed");
  const bool begins = start.offset == 0;  // a state without a position in the block
  if (begins) inside_ = block().inside;
  open(begins ? block().offset : start.offset, begins ? block().line : start.line);
}

void Corpus::open(std::int64_t offset, std::int64_t line) {
  reader_.emplace(dataset_.files()[block().file], dataset_.request(longest_piece), static_cast<std::uint64_t>(offset),
                  line);
}

bool Corpus::next(Piece& piece) {
  for (;;) {
    piece.block = index_;
    piece.offset = offset();
    piece.line = reader_->lines().lines_before();
    piece.text.clear(), piece.first.clear();
    piece.inside = piece.apart = piece.ends_document = false;
    const bool documents = dataset_.spec().task == Task::clm && !reader_->is_table();
    if (offset() < block().end && (documents ? read_document(piece) : read(piece))) return true;
    if (index_ + 1 == std::ssize(order_)) return false;
    ++index_;
    inside_ = block().inside;
    open(block().offset, block().line);
    piece.ends_document = true;
    return true;
  }
}

bool Corpus::read(Piece& piece) {
  Row row;
  if (!reader_->next(row)) return false;
  piece.ends_document = reader_->is_table() || row.text[0] == "\f";
  const bool pair = dataset_.spec().text.size() > 1;
  if (reader_->is_table() || !piece.ends_document) piece.text = row.text[pair ? 1 : 0];
  if (pair) piece.first = row.text[0];
  if (dataset_.spec().chat) piece.place = fmt::format("[data] {}: line {}", reader_->lines().path(), row.line);
  return true;
}

// Reads all lines up to a form feed, the end of the block or of the file, unchanged except that the line end before a
// form feed or the end of the file is dropped.
bool Corpus::read_document(Piece& piece) {
  Row row;
  bool any = false, line_ended = true;
  piece.inside = inside_;
  piece.apart = inside_ && piece.offset == block().offset;
  while (piece.text.size() < longest_piece && line_ended && offset() < block().end) {
    if (!reader_->next(row)) {
      inside_ = false;
      piece.ends_document = any || piece.inside;
      return piece.ends_document;
    }
    piece.ends_document = row.text[0] == "\f";
    if (piece.ends_document) break;
    if (any) piece.text += '\n';
    piece.text += row.text[0];
    line_ended = reader_->lines().line_ended();
    any = true;
  }
  inside_ = !piece.ends_document;
  if (inside_ && line_ended) piece.text += '\n';
  return true;
}

std::size_t tokenising_bytes(const Dataset& dataset, int threads) {
  if (dataset.spec().task != Task::clm) return 0;
  std::size_t longest = 0;
  for (const std::string& path : dataset.files()) {
    const Format format = dataset.spec().format ? *dataset.spec().format : format_of(path);
    if (format != Format::text) continue;
    const bool plain = !path.ends_with(".gz") && !path.ends_with(".zst");
    longest = std::max(longest, plain ? std::min<std::size_t>(file_size(path), usual_part) : usual_part);
  }
  return longest * Corpus::tokenising_factor * static_cast<std::size_t>(threads);
}

}  // namespace comera::data
