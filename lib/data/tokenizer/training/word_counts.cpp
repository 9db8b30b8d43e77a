#include "lib/data/tokenizer/training/word_counts.h"

#include <algorithm>
#include <map>

namespace comera::data {

void WordCounts::add(std::string_view word) {
  if (const auto found = counts_.find(word); found != counts_.end()) {
    ++found->second;
    return;
  }
  counts_.emplace(word, 1);
  bytes_ += word.size();
  if (counts_.size() > words_limit_ || bytes_ > bytes_limit_) drop_rarest();
}

void WordCounts::drop_rarest() {
  struct Held {
    std::size_t words = 0, bytes = 0;
  };
  std::map<std::int64_t, Held> by_count;
  for (const auto& [word, count] : counts_) {
    Held& held = by_count[count];
    ++held.words;
    held.bytes += word.size();
  }
  std::size_t words = counts_.size(), bytes = bytes_;
  std::int64_t highest = 0;
  for (const auto& [count, held] : by_count) {
    if (words <= words_limit_ / 2 && bytes <= bytes_limit_ / 2) break;
    words -= held.words;
    bytes -= held.bytes;
    highest = count;
  }
  dropped_ += static_cast<std::int64_t>(std::erase_if(counts_, [&](const auto& one) { return one.second <= highest; }));
  bytes_ = bytes;
}

std::vector<std::pair<std::string, std::int64_t>> WordCounts::take_sorted() {
  std::vector<std::pair<std::string, std::int64_t>> sorted;
  sorted.reserve(counts_.size());
  while (!counts_.empty()) {
    auto node = counts_.extract(counts_.begin());
    sorted.emplace_back(std::move(node.key()), node.mapped());
  }
  bytes_ = 0;
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

}  // namespace comera::data
