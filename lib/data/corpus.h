// Reads the texts of a corpus in an epoch's order of blocks: lines (mlm), documents (clm) or rows of tables. Each text
// has a position at which reading can restart.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/data/blocks.h"

namespace comera::data {

struct Piece {
  std::int64_t block = 0, offset = 0,
               line = 0;         // index in the epoch's order, unpacked byte, lines before it
  std::string text, first = {};  // first: of a pair
  std::int64_t bytes = 0;        // of `text`, which is gone when `ids` are made
  bool inside = false;           // clm: continues a document
  bool apart = false;            // clm: the document's text before this piece is in another block
  bool ends_document = false;    // may also be set without text: at the end of a block
  Ids ids, first_ids = {};
  std::string place = {};                  // of a conversation, for messages
  std::vector<std::uint8_t> answers = {};  // of a conversation: 1 for each id of an answer
};

class Corpus {
 public:
  // Largest number of bytes that are tokenised at once. A longer document is cut into pieces at the next line end, and
  // a longer line is cut too.
  static constexpr std::size_t longest_piece = longest_part;
  // Tokenising a text temporarily takes about a hundred times its bytes.
  static constexpr std::size_t tokenising_factor = 100;

  // `blocks` must outlive the corpus.
  Corpus(const FileDataset& dataset, const std::vector<Block>& blocks, const LoaderOptions& options,
         const LoaderState& start);

  // Returns false at the end of the epoch. A piece may be empty at the end of a document.
  bool next(Piece& piece);

 private:
  const Block& block() const { return blocks_[order_[static_cast<std::size_t>(index_)]]; }
  std::int64_t offset() const { return static_cast<std::int64_t>(reader_->lines().offset()); }
  void open(std::int64_t offset, std::int64_t line);
  bool read(Piece& piece);
  bool read_document(Piece& piece);

  const FileDataset& dataset_;
  const std::vector<Block>& blocks_;
  std::vector<std::size_t> order_;
  std::int64_t index_;  // of the block in this order
  bool inside_;         // clm: the next piece begins inside a document
  std::optional<TextReader> reader_;
};

// The host memory that tokenising the documents of the data set takes at most, if they have places for clean cuts; 0 if
// texts are lines or rows.
std::size_t tokenising_bytes(const Dataset& dataset, int threads);

}  // namespace comera::data
