// Reads the texts of a corpus in an epoch's order: lines (mlm), documents (clm) or rows of tables. Each text has a
// position at which reading can restart.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/data/dataset.h"

namespace comera::data {

struct Piece {
  std::int64_t file = 0, offset = 0,
               line = 0;         // index in the epoch's order, unpacked byte, lines before it
  std::string text, first = {};  // first: of a pair
  bool inside = false;           // clm: continues the document of the previous piece
  bool ends_document = false;    // may also be set without text: at the end of a file
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

  Corpus(const FileDataset& dataset, const LoaderOptions& options, const LoaderState& start);

  // Returns false at the end of the epoch. A piece may be empty at the end of a document.
  bool next(Piece& piece);

 private:
  void open(std::int64_t offset = 0, std::int64_t line = 0);
  bool read(Piece& piece);
  bool read_document(Piece& piece);

  const FileDataset& dataset_;
  std::vector<std::size_t> order_;
  std::int64_t file_;
  bool inside_;  // clm: the previous piece ended inside a document
  std::optional<TextReader> reader_;
};

// The host memory that tokenising the documents of the data set takes at most, if they have places for clean cuts; 0 if
// texts are lines or rows.
std::size_t tokenising_bytes(const Dataset& dataset, int threads);

}  // namespace comera::data
