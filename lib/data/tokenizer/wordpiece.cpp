#include "lib/data/tokenizer/wordpiece.h"

#include <algorithm>
#include <unordered_map>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/hash.h"
#include "lib/data/tokenizer/unicode.h"

namespace comera::data {
namespace {

constexpr const char* special_names[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};

// Calls `visit` with every line of `text`, without trailing blanks and line end, and its number from 1.
template <class Visit>
void for_each_line(std::string_view text, Visit&& visit) {
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '\t')) line.remove_suffix(1);
    visit(line, number);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

bool ascii_letter_or_digit(unsigned char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Splits normalised text into words: a word grows in `buffer` until a blank or a punctuation character.
class WordSplitter {
 public:
  WordSplitter(const BertRules& rules, std::string& buffer, const std::function<void(std::string_view)>& word)
      : rules_(rules), buffer_(buffer), word_(word) {
    buffer_.clear();
  }

  void ascii(unsigned char c) {
    if (ascii_letter_or_digit(c)) {
      buffer_ += static_cast<char>(rules_.lower && c >= 'A' && c <= 'Z' ? c + 32 : c);
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      flush();
    } else if (c > 0x20 && c < 0x7F) {
      alone(c);
    }
  }

  void other(std::uint32_t code_point) {
    if (is_removed(code_point)) return;
    if (is_space(code_point)) return flush();
    const bool apart = rules_.split_cjk && is_cjk(code_point);
    if (apart) flush();
    normalise(code_point);
    for (std::size_t at = 0; at < normal_.size();) place(next_code_point(normal_, at));
    if (apart) flush();
  }

  void flush() {
    if (!buffer_.empty()) word_(buffer_);
    buffer_.clear();
  }

 private:
  void alone(std::uint32_t code_point) {
    flush();
    append_utf8(buffer_, code_point);
    flush();
  }
  void place(std::uint32_t code_point) {
    if (is_space(code_point)) return flush();
    if (is_punctuation(code_point)) return alone(code_point);
    append_utf8(buffer_, code_point);
  }
  void normalise(std::uint32_t code_point) {
    plain_.clear();
    normal_.clear();
    rules_.strip_accents ? append_without_accents(plain_, code_point) : append_utf8(plain_, code_point);
    if (!rules_.lower) return normal_.swap(plain_);
    for (std::size_t at = 0; at < plain_.size();) append_lower(normal_, next_code_point(plain_, at));
  }

  const BertRules& rules_;
  std::string& buffer_;
  const std::function<void(std::string_view)>& word_;
  std::string plain_, normal_;
};

std::size_t count_code_points(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

// As in the clean-up of Hugging Face's decoder: no blank precedes these pieces.
bool joins_previous(std::string_view piece) {
  for (std::string_view start : {".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re"})
    if (piece.starts_with(start)) return true;
  return false;
}

}  // namespace

void for_each_word(std::string_view text, const BertRules& rules, std::string& buffer,
                   const std::function<void(std::string_view)>& word) {
  WordSplitter splitter(rules, buffer, word);
  for (std::size_t at = 0; at < text.size();) {
    const auto c = static_cast<unsigned char>(text[at]);
    if (c < 0x80) {
      splitter.ascii(c);
      ++at;
    } else {
      splitter.other(next_code_point(text, at));
    }
  }
  splitter.flush();
}

bool looks_cased(std::string_view vocab) {
  bool cased = false;
  for_each_line(vocab, [&](std::string_view line, std::int64_t) {
    if (line.size() > 2 && line.front() == '[' && line.back() == ']') return;
    cased = cased || std::any_of(line.begin(), line.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  });
  return cased;
}

WordPiece::WordPiece(std::string_view vocab, std::string name, BertRules rules)
    : name_(std::move(name)), vocab_(vocab), rules_(rules) {
  for_each_line(vocab_, [&](std::string_view line, std::int64_t number) {
    if (const std::size_t bad = find_invalid_utf8(line); bad != std::string_view::npos)
      fail_input("[tokenizer] {}: line {}: byte {} is not UTF-8; a vocab.txt is UTF-8 text with one piece per line",
                 name_, number, bad + 1);
    pieces_.emplace_back(line);
  });
  if (pieces_.empty()) fail_input("[tokenizer] {}: is empty; a vocab.txt holds one piece per line", name_);

  if (vocab_size() > most_pieces)
    fail_input("[tokenizer] {}: holds {} pieces; at most {} are read", name_, vocab_size(), most_pieces);

  std::unordered_map<std::string_view, std::int32_t> index;
  for (std::size_t id = 0; id < pieces_.size(); ++id) {
    const std::string_view piece = pieces_[id];
    index[piece] = static_cast<std::int32_t>(id);  // for duplicate entries the later one wins, as in the reference
    if (piece.empty()) continue;
    // No word begins with ##, because punctuation is split off.
    if (piece.size() > 2 && piece.starts_with("##"))
      continuations_.insert(piece.substr(2), static_cast<std::int32_t>(id));
    else
      starts_.insert(piece, static_cast<std::int32_t>(id));
  }
  std::int32_t* const roles[] = {&specials_.pad, &specials_.unknown, &specials_.cls, &specials_.sep, &specials_.mask};
  for (int i = 0; i < 5; ++i) {
    const auto found = index.find(special_names[i]);
    *roles[i] = found == index.end() ? -1 : found->second;
    written_[static_cast<std::size_t>(i)] = {special_names[i], *roles[i]};
  }
  specials_.begin = specials_.cls;
  specials_.end = specials_.sep;
  if (specials_.unknown < 0)
    fail_input("[tokenizer] {}: holds no [UNK] among its {} entries; a BERT vocab.txt needs a line [UNK]", name_,
               pieces_.size());
  hash_ = hash_text(fmt::format("lower {} accents {} cjk {}", rules_.lower, rules_.strip_accents, rules_.split_cjk) +
                    vocab_);
}

void WordPiece::encode_word(std::string_view word, Ids& ids) const {
  const std::size_t before = ids.size();
  const PieceTrie* trie = &starts_;
  const bool too_long = word.size() > max_word && count_code_points(word) > max_word;
  while (!too_long && !word.empty()) {
    std::size_t length = 0;
    const std::int32_t id = trie->longest(word, length);
    if (id < 0) break;
    ids.push_back(id);
    word.remove_prefix(length);
    trie = &continuations_;
  }
  if (word.empty()) return;
  ids.resize(before);
  ids.push_back(specials_.unknown);
}

void WordPiece::encode_plain(std::string_view text, std::string& buffer, Ids& ids) const {
  for_each_word(text, rules_, buffer, [&](std::string_view word) { encode_word(word, ids); });
}

void WordPiece::encode(std::string_view text, Ids& ids) const {
  std::string buffer;
  std::size_t begin = 0;
  for (std::size_t at = text.find('['); at != std::string_view::npos; at = text.find('[', at)) {
    const auto found = std::find_if(written_.begin(), written_.end(), [&](const auto& special) {
      return special.second >= 0 && text.substr(at).starts_with(special.first);
    });
    if (found == written_.end()) {
      ++at;
      continue;
    }
    encode_plain(text.substr(begin, at - begin), buffer, ids);
    ids.push_back(found->second);
    begin = at += found->first.size();
  }
  encode_plain(text.substr(begin), buffer, ids);
}

Cut WordPiece::cut(std::string_view text) const {
  if (const std::size_t blank = text.find_last_of(" \t"); blank != std::string_view::npos && blank > 0)
    return {blank, blank + 1};
  if (const std::size_t mark = text.find_last_of(".,;:!?()\"'-/"); mark != std::string_view::npos)
    return {mark + 1, mark + 1};
  for (std::size_t at = text.size(); rules_.split_cjk && at-- > 1;) {
    std::size_t behind = at;
    if ((static_cast<unsigned char>(text[at]) & 0xC0) != 0x80 && is_cjk(next_code_point(text, behind))) return {at, at};
  }
  return {text.size(), text.size()};
}

std::string WordPiece::piece(std::int32_t id) const {
  if (!has(id)) fail_input("[tokenizer] {}: id {} is outside the vocabulary of {} entries", name_, id, vocab_size());
  return pieces_[static_cast<std::size_t>(id)];
}

std::string WordPiece::decode(const Ids& ids, bool keep_special) const {
  std::string text;
  bool first = true;
  for (std::int32_t id : ids) {
    const std::string& whole = piece(id);
    if (!keep_special && specials_.contains(id)) continue;
    std::string_view part = whole;
    if (!first) {
      if (part.starts_with("##")) {
        part.remove_prefix(2);
      } else if (!joins_previous(part)) {
        text += ' ';
      }
    }
    text += part;
    first = false;
  }
  return text;
}

void WordPiece::save(const Folder& folder) const {
  write_file_atomic(folder, "vocab.txt", vocab_);
  write_file_atomic(
      folder, "tokenizer_config.json",
      fmt::format("{{\n  \"do_lower_case\": {},\n  \"strip_accents\": {},\n  \"tokenize_chinese_chars\": {},\n"
                  "  \"tokenizer_class\": \"BertTokenizer\"\n}}\n",
                  rules_.lower, rules_.strip_accents, rules_.split_cjk));
}

}  // namespace comera::data
