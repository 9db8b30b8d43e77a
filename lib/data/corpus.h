// The texts of a corpus in an epoch's order: lines (mlm), or documents (clm), and where each lies so that reading can start again at it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/data/byte_stream.h"
#include "lib/data/dataset.h"

namespace comera::data {

struct Piece {
  std::int64_t file = 0, offset = 0, line = 0;  // in the epoch's order; byte of the unpacked file, and number of lines before it
  std::string text;
  bool inside = false;         // clm: goes on with the document of the piece before
  bool ends_document = false;  // also without a text: behind the lines of a file
  Ids ids;
};

class Corpus {
 public:
  // Bytes of a document at which it is cut into pieces, at the next end of a line: what is tokenised as a whole.
  static constexpr std::size_t longest_piece = std::size_t{1} << 18;
  // Tokenising a text takes some hundred times its bytes for a moment.
  static constexpr std::size_t tokenising_factor = 100;

  Corpus(const FileDataset& dataset, const LoaderOptions& options, const LoaderState& start);

  // False at the end of the epoch. An empty piece may come where a document ends.
  bool next(Piece& piece);

 private:
  const std::string& path() const { return dataset_.files()[order_[static_cast<std::size_t>(file_)]]; }
  bool read(Piece& piece);
  bool read_document(Piece& piece);
  void take(std::string_view line, Piece& piece) const;

  const FileDataset& dataset_;
  std::vector<std::size_t> order_;
  std::int64_t file_;
  bool inside_;  // clm: the piece before ended inside a document
  std::optional<LineReader> reader_;
};

// What making tokens of the data set's documents takes at most on the host; 0 where texts are lines or rows.
std::size_t tokenising_bytes(const Dataset& dataset, int threads);

}  // namespace comera::data
