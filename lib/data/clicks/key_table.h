// A map from 64-bit keys to numbers of 32 bits, by open addressing: 12 bytes per place, at most 5/8 of them used.
#pragma once

#include <cstdint>
#include <vector>

namespace comera::data {

// Keys must be well mixed: their low bits are the first place.
class KeyTable {
 public:
  static constexpr std::int32_t missing = -1;

  std::size_t size() const { return size_; }

  std::int32_t find(std::uint64_t key) const {
    if (size_ == 0) return missing;
    const std::size_t at = place(key);
    return values_[at];
  }
  // The value of the key; `value` if it is new.
  std::int32_t add(std::uint64_t key, std::int32_t value) {
    if (8 * (size_ + 1) > 5 * keys_.size()) grow();
    const std::size_t at = place(key);
    if (values_[at] == missing) {
      keys_[at] = key, values_[at] = value;
      ++size_;
    }
    return values_[at];
  }

 private:
  // That of the key, or the free one that it would get.
  std::size_t place(std::uint64_t key) const {
    std::size_t at = key & (keys_.size() - 1);
    while (values_[at] != missing && keys_[at] != key) at = (at + 1) & (keys_.size() - 1);
    return at;
  }
  void grow() {
    KeyTable larger;
    larger.keys_.resize(keys_.empty() ? 64 : 2 * keys_.size());
    larger.values_.resize(larger.keys_.size(), missing);
    for (std::size_t i = 0; i < keys_.size(); ++i)
      if (values_[i] != missing) larger.add(keys_[i], values_[i]);
    *this = std::move(larger);
  }

  std::vector<std::uint64_t> keys_;
  std::vector<std::int32_t> values_;
  std::size_t size_ = 0;
};

}  // namespace comera::data
