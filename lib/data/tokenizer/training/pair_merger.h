// Byte pair encoding (Sennrich et al. 2016) of counted words: finds and merges the most frequent pair of neighbours.
// All merges together take time in proportion to the symbols that they touch, because a pair knows its places and words
// are linked lists.
#pragma once

#include <cstdint>
#include <optional>
#include <queue>
#include <span>
#include <unordered_map>
#include <vector>

namespace comera::data {

struct SymbolPair {
  std::int32_t left = -1, right = -1;
};

class PairMerger {
 public:
  // Symbols of a word that occurs `count` times. Words of one symbol have no pair and are not kept.
  void add_word(std::span<const std::int32_t> symbols, std::int64_t count);

  // Finds all pairs; called once, after the last word.
  void start();

  // The most frequent pair; of equal ones, the one whose left symbol, then whose right symbol, has the lowest id. None
  // if no pair occurs `least` times.
  std::optional<SymbolPair> best(std::int64_t least);

  // Replaces every occurrence of the pair by `made`, in each word from left to right. Occurrences that overlap, as in
  // "aaa", count once each before, and what remains counts after.
  void merge(SymbolPair pair, std::int32_t made);

 private:
  using Key = std::uint64_t;  // left << 32 | right
  static constexpr std::uint32_t none = UINT32_MAX;

  struct HashKey {
    std::size_t operator()(Key key) const {
      return static_cast<std::size_t>((key ^ key >> 29) * 0x9E3779B97F4A7C15u >> 7);
    }
  };
  struct Place {
    std::int32_t symbol = -1;  // -1: merged into its neighbour before it
    std::uint32_t word = 0, previous = none, next = none;
  };
  struct Pair {
    std::int64_t count = 0;
    std::vector<std::uint32_t> places;  // of the left symbol, with some where the pair no longer is
  };
  struct Candidate {
    std::int64_t count;
    Key key;
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : key > other.key;
    }
  };

  static Key key_of(std::int32_t left, std::int32_t right) {
    return static_cast<Key>(left) << 32 | static_cast<std::uint32_t>(right);
  }
  Key key_at(std::uint32_t place) const { return key_of(places_[place].symbol, places_[places_[place].next].symbol); }
  void add_pair(std::uint32_t place);
  void remove_pair(std::uint32_t place);
  void merge_at(std::uint32_t place, std::int32_t made);

  std::vector<Place> places_;
  std::vector<std::int64_t> counts_;  // of words
  std::unordered_map<Key, Pair, HashKey> pairs_;
  std::priority_queue<Candidate> queue_;
  std::vector<Key> grown_;  // pairs with a count that the merge raised
};

}  // namespace comera::data
