// The texts of a corpus in an epoch's order: lines (mlm), documents (clm), rows of tables, and where each lies so that
// reading can start again at it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/data/dataset.h"

namespace comera::data {

struct Piece {
  std::int64_t file = 0, offset = 0,
               line = 0;  // in the epoch's order; byte of the unpacked file, and number of lines before it
  std::string text;
  bool inside = false;         // clm: goes on with the document of the piece before
  bool ends_document = false;  // also without a text: behind the lines of a file
  Ids ids;
};

class Corpus {
 public:
  // Bytes of a document at which it is cut into pieces, at the next end of a line, and of a line at which that is: what
  // is tokenised as a whole.
  static constexpr std::size_t longest_piece = longest_part;
  // Tokenising a text takes some hundred times its bytes for a moment.
  static constexpr std::size_t tokenising_factor = 100;

  Corpus(const FileDataset& dataset, const LoaderOptions& options, const LoaderState& start);

  // False at the end of the epoch. An empty piece may come where a document ends.
  bool next(Piece& piece);

 private:
  void open(std::int64_t offset = 0, std::int64_t line = 0);
  bool read(Piece& piece);
  bool read_document(Piece& piece);

  const FileDataset& dataset_;
  std::vector<std::size_t> order_;
  std::int64_t file_;
  bool inside_;  // clm: the piece before ended inside a document
  std::optional<TextReader> reader_;
};

// The most host memory that tokenising the data set's documents takes; 0 if texts are lines or rows.
std::size_t tokenising_bytes(const Dataset& dataset, int threads);

}  // namespace comera::data
