// Counts the words of texts in bounded memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace comera::data {

class WordCounts {
 public:
  // Words and bytes in one table: some 600 MiB. Natural text reaches it beyond a hundred gigabytes.
  static constexpr std::size_t most_words = std::size_t{6} << 20, most_bytes = std::size_t{256} << 20;

  explicit WordCounts(std::size_t words = most_words, std::size_t bytes = most_bytes)
      : words_limit_(words), bytes_limit_(bytes) {}

  // When the table is full, the rarest words are dropped until it is at most half full. Which ones depends on the order
  // of the texts alone.
  void add(std::string_view word);

  std::int64_t dropped() const { return dropped_; }  // words with their counts so far

  // In byte order, so that no result depends on a hash. The table is empty afterwards.
  std::vector<std::pair<std::string, std::int64_t>> take_sorted();

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };

  void drop_rarest();

  std::size_t words_limit_, bytes_limit_, bytes_ = 0;
  std::int64_t dropped_ = 0;
  std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> counts_;
};

}  // namespace comera::data
