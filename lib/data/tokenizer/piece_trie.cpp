#include "lib/data/tokenizer/piece_trie.h"

#include <algorithm>

namespace comera::data {

void PieceTrie::grow() {
  std::vector<Edge> before(std::max<std::size_t>(64, 2 * edges_.size()));
  before.swap(edges_);
  mask_ = edges_.size() - 1;
  for (const Edge& edge : before)
    if (edge.key != 0)
      edges_[slot(static_cast<std::uint32_t>(edge.key / 256 - 1), static_cast<unsigned char>(edge.key % 256))] = edge;
}

std::size_t PieceTrie::slot(std::uint32_t node, unsigned char byte) const {
  const std::uint64_t key = (std::uint64_t{node} + 1) * 256 + byte;
  std::size_t at = static_cast<std::size_t>(key * 0x9E3779B97F4A7C15u >> 20) & mask_;
  while (edges_[at].key != 0 && edges_[at].key != key) at = (at + 1) & mask_;
  return at;
}

void PieceTrie::insert(std::string_view piece, std::int32_t id) {
  std::uint32_t node = 0;
  for (char c : piece) {
    const auto byte = static_cast<unsigned char>(c);
    if (2 * ids_.size() >= edges_.size()) grow();
    Edge& edge = edges_[slot(node, byte)];
    if (edge.key == 0) {
      edge = {(std::uint64_t{node} + 1) * 256 + byte, static_cast<std::uint32_t>(ids_.size())};
      ids_.push_back(-1);
    }
    node = edge.child;
  }
  ids_[node] = id;
}

std::int32_t PieceTrie::longest(std::string_view text, std::size_t& length) const {
  std::int32_t found = -1;
  for_each_start(text, [&](std::int32_t id, std::size_t bytes) {
    found = id;
    length = bytes;
  });
  return found;
}

}  // namespace comera::data
