// The pieces of a tokenizer.json by id, and their ids by text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/data/tokenizer/pipeline/json_node.h"

namespace comera::data {

class Vocabulary {
 public:
  // An object of pieces and their ids. InputError for ids below 0 or above most_pieces, and for two pieces of one id.
  static Vocabulary of_object(const JsonNode& node);

  void add(std::string piece, std::int64_t id, const JsonNode& node);
  // -1 if it is no piece.
  std::int32_t find(std::string_view piece) const;
  // Empty where no piece has this id.
  const std::string& piece(std::int32_t id) const { return pieces_[static_cast<std::size_t>(id)]; }
  bool has(std::int32_t id) const { return id >= 0 && id < size() && present_[static_cast<std::size_t>(id)]; }
  std::int32_t size() const { return static_cast<std::int32_t>(pieces_.size()); }  // largest id + 1

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  std::vector<std::string> pieces_;
  std::vector<bool> present_;
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> ids_;
};

}  // namespace comera::data
