// Blocks of a corpus: an epoch of training reads them in random order, so that a file of any size is shuffled as a
// whole, whatever the window of a loader is.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "lib/data/dataset.h"

namespace comera::data {

struct Block {
  static constexpr std::int64_t end_of_file = std::numeric_limits<std::int64_t>::max();

  std::size_t file = 0;               // index in FileDataset::files()
  std::int64_t offset = 0, line = 0;  // unpacked byte, lines before it
  std::int64_t end = end_of_file;     // unpacked byte after the block
  bool inside = false;                // clm, text: begins inside a document
};

// One block per file.
std::vector<Block> whole_files(const FileDataset& dataset);

// Reads all files that are not packed and cuts them behind a row of a table, a line, or (clm, text) a form feed if one
// comes before a block has twice its size. A packed file, where reading cannot begin in the middle, stays whole; one
// that is longer than a window is reported. A block has the text of about 64 sequences, so that few of them have a cut,
// and at least 32 KiB; those of a corpus of more than 2^18 blocks are larger, so that their list stays small.
std::vector<Block> cut_into_blocks(const FileDataset& dataset);

}  // namespace comera::data
