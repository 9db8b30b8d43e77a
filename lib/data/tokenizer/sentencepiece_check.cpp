#include "lib/data/tokenizer/sentencepiece_check.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "lib/core/error.h"
#include "lib/data/tokenizer/unicode.h"
#include "lib/io/sentencepiece_message.h"

namespace comera::data {
namespace {

constexpr std::size_t largest_map = 4 << 20;  // SentencePiece's own maps have 0.3 MB
constexpr std::size_t longest_text = 1024;    // longest replacement of one character
constexpr int most_matches = 32;  // Normalizer::kMaxTrieResultsSize: capacity for rules that match at one position
constexpr std::size_t most_nested_pieces = 64;  // kResultSize of PrefixMatcher::PrefixMatch()

[[noreturn]] void fail_map(const std::string& name, const char* what) {
  fail_input("[tokenizer] {}: its precompiled_charsmap is damaged ({}); fetch the model again", name, what);
}

// A unit of a double array (Yata 2011, darts-clone).
struct Unit {
  std::uint32_t bits;
  bool has_leaf() const { return (bits >> 8 & 1) != 0; }
  std::uint32_t value() const { return bits & 0x7fffffffU; }  // of a leaf
  std::uint32_t label() const { return bits & 0x800000ffU; }
  std::uint32_t offset() const { return bits >> 10 << ((bits & 0x200U) >> 6); }
};

// Checks every path of a text through the array. A place is the index at which the units of a node's 256 possible
// children begin: the child of byte c is unit place ^ c if its label is c.
class Trie {
 public:
  Trie(std::string_view units, std::string_view texts, const std::string& name)
      : units_(units),
        count_(static_cast<std::uint32_t>(units.size() / 4)),
        texts_(texts),
        name_(name),
        matches_(count_, unknown) {}

  // Checks that no path leaves the array, no path has a cycle, and no path matches more rules than the library has
  // capacity for.
  void check() {
    std::vector<Step> way{{place_behind(0, unit(0)), 0, 0}};
    matches_[way.back().place] = open;
    while (!way.empty()) {
      Step& step = way.back();
      if (step.byte == 256) {
        const Step done = step;
        matches_[done.place] = static_cast<std::int8_t>(done.most);
        way.pop_back();
        if (!way.empty()) join(way.back(), done.place);
        continue;
      }
      const std::uint32_t child = step.place ^ static_cast<std::uint32_t>(step.byte);
      if (unit(child).label() != static_cast<std::uint32_t>(step.byte)) {
        ++step.byte;
        continue;
      }
      const std::uint32_t next = place_behind(child, unit(child));
      if (matches_[next] == open) fail_map(name_, "a way through its trie has no end");
      if (unit(child).has_leaf()) check_text(unit(next).value());
      if (matches_[next] != unknown) {
        join(step, next);
        continue;
      }
      matches_[next] = open;
      way.push_back({next, 0, 0});
    }
  }

 private:
  static constexpr std::int8_t unknown = -1, open = -2;
  struct Step {
    std::uint32_t place;
    int byte;  // the byte in progress; the children of smaller bytes are done
    int most;  // largest number of matches on a path below
  };

  Unit unit(std::uint32_t index) const {
    Unit unit{};
    std::memcpy(&unit.bits, units_.data() + std::size_t{index} * 4, 4);
    return unit;
  }

  std::uint32_t place_behind(std::uint32_t index, Unit unit) const {
    const std::uint32_t place = index ^ unit.offset();
    if ((place | 0xffU) >= count_) fail_map(name_, "its trie leads out of itself");
    return place;
  }

  // The current child of `step` leads to `place`, whose matches are known.
  void join(Step& step, std::uint32_t place) {
    const int below = matches_[place] + (unit(step.place ^ static_cast<std::uint32_t>(step.byte)).has_leaf() ? 1 : 0);
    if (below > most_matches) fail_map(name_, "more than 32 of its rules match at one place");
    step.most = std::max(step.most, below);
    ++step.byte;
  }

  void check_text(std::uint32_t at) const {
    if (at >= texts_.size()) fail_map(name_, "a rule leads out of its texts");
    const std::string_view text = texts_.substr(at, longest_text + 1);
    const std::size_t end = text.find('\0');
    if (end == std::string_view::npos) fail_map(name_, "the text of a rule has no end or more than 1024 bytes");
    if (find_invalid_utf8(text.substr(0, end)) != std::string_view::npos)
      fail_map(name_, "the text of a rule is not UTF-8");
  }

  std::string_view units_;
  std::uint32_t count_;
  std::string_view texts_;
  const std::string& name_;
  std::vector<std::int8_t> matches_;  // by place
};

void check_nesting(std::vector<std::string_view> pieces, const std::string& name) {
  std::sort(pieces.begin(), pieces.end());
  std::vector<std::string_view> open;  // each one is a prefix of the next
  for (const std::string_view piece : pieces) {
    while (!open.empty() && !piece.starts_with(open.back())) open.pop_back();
    open.push_back(piece);
    if (open.size() > most_nested_pieces)
      fail_input(
          "[tokenizer] {}: more than {} pieces that were added by hand begin one with the other; the model is damaged",
          name, most_nested_pieces);
  }
}

}  // namespace

void check_charsmap(std::string_view map, const std::string& name) {
  if (map.empty()) return;  // no map
  if (map.size() > largest_map) fail_map(name, "it has more than 4 MiB");
  std::uint32_t bytes = 0;
  if (map.size() < sizeof bytes) fail_map(name, "it has no trie");
  std::memcpy(&bytes, map.data(), sizeof bytes);
  map.remove_prefix(sizeof bytes);
  if (bytes == 0 || bytes % 4 != 0 || bytes > map.size()) fail_map(name, "the size of its trie is wrong");
  Trie(map.substr(0, bytes), map.substr(bytes), name).check();
}

void check_sentencepiece(std::string_view model, const std::string& name) {
  if (model.size() > (std::size_t{1} << 30))
    fail_input("[tokenizer] {}: {} bytes are too many for a SentencePiece model", name, model.size());
  std::vector<std::string_view> added;
  // Fields of ModelProto: pieces 1 {piece 1, type 3}, normalizer_spec 3 and denormalizer_spec 5 {precompiled_charsmap
  // 2}.
  io::each_field(model, [&](const io::MessageField& field) {
    if (field.number == 3 || field.number == 5)
      io::each_field(field.text, [&](const io::MessageField& inner) {
        if (inner.number == 2) check_charsmap(inner.text, name);
      });
    if (field.number == 1) {
      std::string_view text;
      bool by_hand = false;
      io::each_field(field.text, [&](const io::MessageField& inner) {
        if (inner.number == 1) text = inner.text;
        if (inner.number == 3) by_hand = inner.bits == static_cast<std::uint64_t>(io::PieceType::user_defined);
      });
      if (by_hand) added.push_back(text);
    }
  });
  check_nesting(std::move(added), name);
}

}  // namespace comera::data
