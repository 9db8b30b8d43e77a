#include "lib/data/tokenizer/training/pair_merger.h"

#include <algorithm>

#include "lib/core/error.h"
#include "lib/core/terminal/stop.h"

namespace comera::data {

void PairMerger::add_word(std::span<const std::int32_t> symbols, std::int64_t count) {
  if (symbols.size() < 2) return;
  if (places_.size() + symbols.size() >= none)
    fail_input("[tokenizer] the different words of the texts have more than {} symbols; use a lower --sample", none);
  const auto word = static_cast<std::uint32_t>(counts_.size());
  counts_.push_back(count);
  const auto first = static_cast<std::uint32_t>(places_.size());
  const auto last = static_cast<std::uint32_t>(first + symbols.size() - 1);
  for (std::uint32_t at = first; at <= last; ++at)
    places_.push_back({symbols[at - first], word, at == first ? none : at - 1, at == last ? none : at + 1});
}

void PairMerger::start() {
  for (std::uint32_t place = 0; place < places_.size(); ++place) {
    if (place % (1 << 16) == 0) check_stop();
    if (places_[place].next != none) add_pair(place);
  }
  grown_.clear();
  for (const auto& [key, pair] : pairs_) queue_.push({pair.count, key});
}

std::optional<SymbolPair> PairMerger::best(std::int64_t least) {
  while (!queue_.empty()) {
    const Candidate top = queue_.top();
    if (top.count < least) return std::nullopt;
    queue_.pop();
    const auto found = pairs_.find(top.key);
    const std::int64_t now = found == pairs_.end() ? 0 : found->second.count;
    if (now == top.count)
      return SymbolPair{static_cast<std::int32_t>(top.key >> 32), static_cast<std::int32_t>(top.key & 0xFFFFFFFFu)};
    if (now > 0 && now < top.count) queue_.push({now, top.key});  // a higher count has its own candidate
  }
  return std::nullopt;
}

void PairMerger::merge(SymbolPair pair, std::int32_t made) {
  const auto found = pairs_.find(key_of(pair.left, pair.right));
  if (found == pairs_.end()) return;
  std::vector<std::uint32_t> places = std::move(found->second.places);
  found->second.places.clear();
  std::sort(places.begin(), places.end());
  std::size_t seen = 0;
  for (const std::uint32_t place : places) {
    if (++seen % (1 << 16) == 0) check_stop();
    if (places_[place].symbol != pair.left || places_[place].next == none) continue;
    if (places_[places_[place].next].symbol == pair.right) merge_at(place, made);
  }
  std::sort(grown_.begin(), grown_.end());
  grown_.erase(std::unique(grown_.begin(), grown_.end()), grown_.end());
  for (const Key one : grown_)
    if (const auto now = pairs_.find(one); now != pairs_.end()) queue_.push({now->second.count, one});
  grown_.clear();
}

void PairMerger::merge_at(std::uint32_t place, std::int32_t made) {
  Place& left = places_[place];
  const std::uint32_t gone = left.next;
  Place& right = places_[gone];
  remove_pair(place);
  if (left.previous != none) remove_pair(left.previous);
  if (right.next != none) remove_pair(gone);
  left.symbol = made;
  left.next = right.next;
  right.symbol = -1;
  if (left.next != none) places_[left.next].previous = place;
  if (left.previous != none) add_pair(left.previous);
  if (left.next != none) add_pair(place);
}

void PairMerger::add_pair(std::uint32_t place) {
  const Key key = key_at(place);
  Pair& pair = pairs_[key];
  pair.count += counts_[places_[place].word];
  pair.places.push_back(place);
  grown_.push_back(key);
}

void PairMerger::remove_pair(std::uint32_t place) {
  const Key key = key_at(place);
  const auto found = pairs_.find(key);
  found->second.count -= counts_[places_[place].word];
  if (found->second.count == 0) pairs_.erase(found);
}

}  // namespace comera::data
