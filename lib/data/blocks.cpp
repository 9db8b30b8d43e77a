#include "lib/data/blocks.h"

#include <algorithm>

#include "lib/core/files/file.h"
#include "lib/core/terminal/log.h"
#include "lib/data/files/files.h"

namespace comera::data {
namespace {

// Bytes after which a block may end.
std::int64_t bytes_of_block(const FileDataset& dataset) {
  constexpr std::int64_t least = 32 << 10, sequences = 64, bytes_per_token = 4, most_blocks = 1 << 18;
  std::int64_t total = 0;
  for (const std::string& path : dataset.files()) total += text_bytes(path);
  return std::max({least, sequences * bytes_per_token * dataset.spec().max_length, total / most_blocks});
}

void tell_packed(const std::string& path) {
  constexpr std::uint64_t long_file = std::uint64_t{1} << 20;  // packed text of a window of 2^20 tokens
  if (file_size(path) > long_file)
    log_info(
        "{}: is packed, so its text is shuffled within windows of about a million tokens; unpack it to shuffle it as a "
        "whole",
        path);
}

void cut(const FileDataset& dataset, std::size_t file, std::int64_t bytes, std::vector<Block>& blocks) {
  const std::string& path = dataset.files()[file];
  TextReader reader(path, dataset.request(longest_part));
  if (!reader.lines().seeks()) {
    tell_packed(path);
    return blocks.push_back({.file = file});
  }
  Reading reading(path);
  const bool documents = dataset.spec().task == Task::clm && !reader.is_table();
  Block block{.file = file};
  for (Row row; reader.next(row);) {
    const LineReader& lines = reader.lines();
    reading.at(lines);
    const auto at = static_cast<std::int64_t>(lines.offset()), size = at - block.offset;
    const bool document_ends = !documents || row.text[0] == "\f";
    if (!lines.line_ended() || size < (document_ends ? bytes : 2 * bytes)) continue;
    block.end = at;
    blocks.push_back(block);
    block = {.file = file, .offset = at, .line = lines.lines_before(), .inside = !document_ends};
  }
  // What is left is a block of its own, or too short for one.
  const auto size = static_cast<std::int64_t>(reader.lines().offset()) - block.offset;
  if (size < bytes / 2 && block.offset > 0) {
    blocks.back().end = Block::end_of_file;
  } else {
    blocks.push_back(block);
  }
}

}  // namespace

std::vector<Block> whole_files(const FileDataset& dataset) {
  std::vector<Block> blocks;
  for (std::size_t file = 0; file < dataset.files().size(); ++file) blocks.push_back({.file = file});
  return blocks;
}

std::vector<Block> cut_into_blocks(const FileDataset& dataset) {
  const std::int64_t bytes = bytes_of_block(dataset);
  std::vector<Block> blocks;
  for (std::size_t file = 0; file < dataset.files().size(); ++file) cut(dataset, file, bytes, blocks);
  return blocks;
}

}  // namespace comera::data
