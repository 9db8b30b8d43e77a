// Byte trie over a vocabulary. It finds the pieces at the start of a text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace comera::data {

class PieceTrie {
 public:
  PieceTrie() { grow(); }
  void insert(std::string_view piece, std::int32_t id);
  // Returns the id of the longest piece at the start of `text`, -1 if none. `length` is its number of bytes.
  std::int32_t longest(std::string_view text, std::size_t& length) const;
  // Calls `visit` with the id and the length of every piece at the start of `text`, the shortest first.
  template <class Visit>
  void for_each_start(std::string_view text, Visit&& visit) const {
    std::uint32_t node = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const Edge& edge = edges_[slot(node, static_cast<unsigned char>(text[i]))];
      if (edge.key == 0) return;
      node = edge.child;
      if (ids_[node] >= 0) visit(ids_[node], i + 1);
    }
  }

 private:
  struct Edge {
    std::uint64_t key = 0;  // (node + 1) * 256 + byte; 0: free
    std::uint32_t child = 0;
  };
  void grow();
  std::size_t slot(std::uint32_t node, unsigned char byte) const;
  std::vector<Edge> edges_;               // open addressing, at most half full
  std::vector<std::int32_t> ids_ = {-1};  // per node
  std::size_t mask_ = 0;
};

}  // namespace comera::data
