// Byte pair encoding as in tokenizer.json.
#include <queue>
#include <unordered_map>

#include "lib/core/terminal/log.h"
#include "lib/data/tokenizer/pipeline/word_model.h"
#include "lib/data/tokenizer/unicode.h"

namespace comera::data {
namespace {

struct Merge {
  std::uint32_t rank = 0;  // its place in the list of merges
  std::int32_t made = 0;
};

struct HashPair {
  std::size_t operator()(std::uint64_t pair) const {
    return static_cast<std::size_t>((pair ^ pair >> 29) * 0x9E3779B97F4A7C15u >> 7);
  }
};

std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

class Bpe final : public WordModel {
 public:
  Bpe(Vocabulary given, const JsonNode& node)
      : WordModel(std::move(given)),
        prefix_(node.text_or("continuing_subword_prefix", "")),
        suffix_(node.text_or("end_of_word_suffix", "")),
        fuses_unknown_(node.flag_or("fuse_unk", false)),
        ignores_merges_(node.flag_or("ignore_merges", false)),
        bytes_(byte_pieces(node.flag_or("byte_fallback", false))) {
    if (const auto dropout = node.find("dropout"); dropout && dropout->json() != 0)
      dropout->fail("merges that are left out at random are not supported; set it to null");
    if (const auto name = node.find("unk_token")) {
      unknown_ = vocabulary().find(name->text());
      if (unknown_ < 0) name->fail("\"{}\" is no piece of the vocabulary", printable(name->text()));
    }
    node.at("merges").for_each_item([&](const JsonNode& item) { add_merge(item); });
  }

  void encode(std::string_view word, std::vector<Token>& tokens) const override {
    if (ignores_merges_) {
      if (const std::int32_t id = vocabulary().find(word); id >= 0) return tokens.push_back({id, {0, word.size()}});
    }
    const std::size_t before = tokens.size();
    append_characters(word, tokens);
    constexpr std::size_t few = 48;  // up to here, looking at all pairs again is faster than a queue
    tokens.size() - before <= few ? merge_few(tokens, before) : merge_many(tokens, before);
  }
  std::int32_t unknown() const override { return unknown_; }

 private:
  void add_merge(const JsonNode& item) {
    std::string left, right;
    if (item.json().is_array() && item.json().size() == 2) {
      left = JsonNode(item.json()[0], item.place()).text();
      right = JsonNode(item.json()[1], item.place()).text();
    } else {
      const std::string both = item.text();
      const std::size_t blank = both.find(' ');
      if (blank == std::string::npos || blank == 0 || both.find(' ', blank + 1) != std::string::npos)
        item.fail("\"{}\" must be two pieces with a blank between them", printable(both));
      left = both.substr(0, blank);
      right = both.substr(blank + 1);
    }
    if (!right.starts_with(prefix_)) item.fail("\"{}\" does not begin with \"{}\"", printable(right), prefix_);
    const std::string whole = left + right.substr(prefix_.size());
    const std::int32_t ids[] = {vocabulary().find(left), vocabulary().find(right), vocabulary().find(whole)};
    for (int i = 0; i < 3; ++i)
      if (ids[i] < 0)
        item.fail("\"{}\" is no piece of the vocabulary", printable(i == 0 ? left : i == 1 ? right : whole));
    merges_[pair_of(ids[0], ids[1])] = {static_cast<std::uint32_t>(count_++), ids[2]};  // the last one counts
  }

  const Merge* find_merge(std::int32_t left, std::int32_t right) const {
    const auto found = merges_.find(pair_of(left, right));
    return found == merges_.end() ? nullptr : &found->second;
  }

  std::int32_t piece_of(std::string_view character, bool first, bool last) const {
    if (prefix_.empty() && suffix_.empty()) return vocabulary().find(character);
    std::string piece(first ? "" : prefix_);
    piece += character;
    if (last) piece += suffix_;
    return vocabulary().find(piece);
  }

  // Spans are those of the reference, where a character that is left out takes no place.
  void append_characters(std::string_view word, std::vector<Token>& tokens) const {
    bool unknown_before = false;
    std::size_t place = 0;
    const auto push = [&](std::int32_t id, std::size_t bytes) {
      tokens.push_back({id, {place, place + bytes}});
      place += bytes;
    };
    for (std::size_t at = 0; at < word.size();) {
      const std::size_t begin = at;
      next_code_point(word, at);
      const std::string_view character = word.substr(begin, at - begin);
      const std::int32_t id = piece_of(character, begin == 0, at == word.size());
      const bool joins = unknown_before && fuses_unknown_;
      unknown_before = false;
      if (id >= 0) {
        push(id, character.size());
      } else if (!bytes_.empty()) {
        for (const char byte : character) push(bytes_[static_cast<unsigned char>(byte)], 1);
      } else if (unknown_ >= 0) {
        unknown_before = true;
        if (joins)
          tokens.back().span.end = place += character.size();
        else
          push(unknown_, character.size());
      }
    }
  }

  void merge_few(std::vector<Token>& tokens, std::size_t before) const {
    for (;;) {
      const Merge* best = nullptr;
      std::size_t place = 0;
      for (std::size_t i = before; i + 1 < tokens.size(); ++i) {
        const Merge* merge = find_merge(tokens[i].id, tokens[i + 1].id);
        if (!merge || (best && merge->rank >= best->rank)) continue;
        best = merge;
        place = i;
      }
      if (!best) return;
      tokens[place] = {best->made, {tokens[place].span.begin, tokens[place + 1].span.end}};
      tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(place) + 1);
    }
  }

  // As merge_few(), in n log n steps.
  void merge_many(std::vector<Token>& tokens, std::size_t before) const {
    struct Node {
      Token token;
      std::size_t previous, next;
    };
    struct Entry {
      std::uint32_t rank;
      std::size_t place;
      std::uint64_t pair;
      bool operator<(const Entry& other) const {
        return rank != other.rank ? rank > other.rank : place > other.place;  // the least comes first
      }
    };
    constexpr std::size_t none = SIZE_MAX;
    std::vector<Node> nodes;
    for (std::size_t i = before; i < tokens.size(); ++i) {
      const std::size_t at = i - before;
      nodes.push_back({tokens[i], at == 0 ? none : at - 1, i + 1 < tokens.size() ? at + 1 : none});
    }
    std::priority_queue<Entry> queue;
    const auto offer = [&](std::size_t left) {
      if (left == none || nodes[left].next == none) return;
      const std::int32_t a = nodes[left].token.id, b = nodes[nodes[left].next].token.id;
      if (const Merge* merge = find_merge(a, b)) queue.push({merge->rank, left, pair_of(a, b)});
    };
    for (std::size_t i = 0; i < nodes.size(); ++i) offer(i);
    while (!queue.empty()) {
      const Entry entry = queue.top();
      queue.pop();
      Node& left = nodes[entry.place];
      if (left.token.id < 0 || left.next == none) continue;
      Node& right = nodes[left.next];
      if (pair_of(left.token.id, right.token.id) != entry.pair) continue;  // merged meanwhile
      left.token = {find_merge(left.token.id, right.token.id)->made, {left.token.span.begin, right.token.span.end}};
      right.token.id = -1;
      left.next = right.next;
      if (left.next != none) nodes[left.next].previous = entry.place;
      offer(left.previous);
      offer(entry.place);
    }
    tokens.resize(before);
    for (const Node& node : nodes)
      if (node.token.id >= 0) tokens.push_back(node.token);
  }

  std::string prefix_, suffix_;
  bool fuses_unknown_, ignores_merges_;
  std::vector<std::int32_t> bytes_;
  std::int32_t unknown_ = -1;
  std::size_t count_ = 0;
  std::unordered_map<std::uint64_t, Merge, HashPair> merges_;
};

}  // namespace

std::unique_ptr<WordModel> read_bpe(const JsonNode& node) {
  return std::make_unique<Bpe>(Vocabulary::of_object(node.at("vocab")), node);
}

}  // namespace comera::data
