#include "lib/data/template/lexer.h"

#include <algorithm>

#include "lib/data/template/literal.h"
#include "lib/data/template/python_text.h"

namespace comera::data::jinja {
namespace {

bool starts_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Line ends of every kind become \n; one at the end of the template is left out.
std::string with_plain_lines(std::string_view source) {
  std::string text;
  for (std::size_t at = 0; at < source.size(); ++at) {
    if (source[at] == '\r' && at + 1 < source.size() && source[at + 1] == '\n') continue;
    text += source[at] == '\r' ? '\n' : source[at];
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : text_(with_plain_lines(source)) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) read_data();
    push(TokenKind::end, "");
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(text_).substr(at_); }
  bool at(std::string_view word) const { return rest().starts_with(word); }

  void advance(std::size_t to) {
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         text_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    at_ = to;
  }

  void push(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  // Text up to the next tag, then the tag.
  void read_data() {
    const std::size_t begin = at_;
    std::size_t tag = begin;
    for (;; ++tag) {
      tag = text_.find('{', tag);
      if (tag == std::string::npos || tag + 1 == text_.size()) tag = text_.size();
      if (tag == text_.size() || std::string_view("{%#").find(text_[tag + 1]) != std::string_view::npos) break;
    }
    std::string data = text_.substr(begin, tag - begin);
    if (tag < text_.size()) strip_before(data, tag);
    if (!data.empty()) push(TokenKind::data, data);
    advance(tag);
    if (tag == text_.size()) return;
    const char kind = text_[tag + 1];
    if (kind == '#')
      skip_comment();
    else if (kind == '%' && raw_begin() != 0)
      read_raw(raw_begin());
    else
      read_tag(kind == '%');
  }

  // `data` is what lies before the tag at `tag`.
  void strip_before(std::string& data, std::size_t tag) const {
    const char sign = tag + 2 < text_.size() ? text_[tag + 2] : ' ';
    if (sign == '-') {
      data.resize(without_blanks_behind(data).size());
      return;
    }
    if (sign == '+' || text_[tag + 1] == '{') return;
    const std::size_t line = data.rfind('\n') + 1;  // npos + 1 is 0
    if (line == 0 && !line_starts_) return;
    if (without_blanks_before(std::string_view(data).substr(line)).empty()) data.resize(line);
  }

  // Behind a tag: -%} drops blanks, and %} of blocks and comments one line end. `end` is behind the tag.
  void finish_tag(std::size_t end, char sign, bool trims) {
    if (sign == '-')
      end = text_.size() - without_blanks_before(std::string_view(text_).substr(end)).size();
    else if (sign != '+' && trims && end < text_.size() && text_[end] == '\n')
      ++end;
    advance(end);
    line_starts_ = text_[end - 1] == '\n';
  }

  void skip_comment() {
    const std::size_t end = text_.find("#}", at_ + 2);
    if (end == std::string::npos) fail_syntax(line_, "a comment has no end; close it by #}}");
    const char sign = end > at_ + 2 ? text_[end - 1] : ' ';
    finish_tag(end + 2, sign, true);
  }

  // The end of {% raw %} at at_; 0: another tag.
  std::size_t raw_begin() const { return word_tag(at_, "raw"); }

  // The end of {% word %} at `place`; 0: another tag.
  std::size_t word_tag(std::size_t place, std::string_view word) const {
    std::size_t at = place + 2;
    if (at < text_.size() && (text_[at] == '-' || text_[at] == '+')) ++at;
    const auto blanks = [&] { at = text_.size() - without_blanks_before(std::string_view(text_).substr(at)).size(); };
    blanks();
    if (std::string_view(text_).substr(at, word.size()) != word) return 0;
    at += word.size();
    blanks();
    if (at < text_.size() && (text_[at] == '-' || text_[at] == '+')) ++at;
    return std::string_view(text_).substr(at, 2) == "%}" ? at + 2 : 0;
  }

  void read_raw(std::size_t begin) {
    const int line = line_;
    finish_tag(begin, text_[begin - 3] == '-' ? '-' : '+', false);
    for (std::size_t tag = at_; (tag = text_.find("{%", tag)) != std::string::npos; tag += 2) {
      const std::size_t end = word_tag(tag, "endraw");
      if (end == 0) continue;
      std::string data = text_.substr(at_, tag - at_);
      strip_before(data, tag);
      if (!data.empty()) push(TokenKind::data, data);
      finish_tag(end, text_[end - 3], true);
      return;
    }
    fail_syntax(line, "the tag raw has no end; close it by {{% endraw %}}");
  }

  void read_tag(bool block) {
    const int line = line_;
    push(block ? TokenKind::block_begin : TokenKind::output_begin, "");
    std::size_t begin = at_ + 2;
    if (begin < text_.size() && (text_[begin] == '-' || (block && text_[begin] == '+'))) ++begin;
    advance(begin);
    const std::string_view close = block ? "%}" : "}}";
    std::string open;  // brackets without their ends
    while (at_ < text_.size()) {
      if (is_python_blank(text_, at_)) {
        advance(text_.size() - without_blanks_before(rest()).size());
        continue;
      }
      const bool signed_end =
          (text_[at_] == '-' || (block && text_[at_] == '+')) && rest().substr(1).starts_with(close);
      if (open.empty() && (signed_end || at(close))) {
        push(block ? TokenKind::block_end : TokenKind::output_end, "");
        return finish_tag(at_ + 2 + signed_end, signed_end ? text_[at_] : ' ', block);
      }
      read_word(open);
    }
    fail_syntax(line, "a tag has no end; close it by {}", close);
  }

  void read_word(std::string& open) {
    const char c = text_[at_];
    if (starts_name(c)) return read_name();
    if (is_digit(c)) return read_number();
    if (c == '\'' || c == '"') return read_text();
    for (const std::string_view sign : {"**", "//", "==", "!=", ">=", "<="})
      if (at(sign)) return push_sign(sign);
    if (std::string_view("+-/*%~[](){}><=.:|,;").find(c) == std::string_view::npos)
      fail_syntax(line_, "'{}' has no meaning here", character_at(text_, at_));
    if (std::string_view("([{").find(c) != std::string_view::npos) open += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (std::string_view(")]}").find(c) != std::string_view::npos) {
      if (open.empty() || open.back() != c) fail_syntax(line_, "'{}' closes no bracket", c);
      open.pop_back();
    }
    push_sign(rest().substr(0, 1));
  }

  void push_sign(std::string_view sign) {
    push(TokenKind::sign, std::string(sign));
    advance(at_ + sign.size());
  }

  void read_name() {
    std::size_t end = at_;
    while (end < text_.size() && (starts_name(text_[end]) || is_digit(text_[end]))) ++end;
    if (end < text_.size() && static_cast<unsigned char>(text_[end]) >= 0x80)
      fail_syntax(line_, "names with letters beyond ASCII are not read");
    push(TokenKind::name, text_.substr(at_, end - at_));
    advance(end);
  }

  void read_number() {
    const bool behind_dot = at_ > 0 && text_[at_ - 1] == '.';
    const NumberLiteral number = number_at(rest(), behind_dot);
    push(number.real ? TokenKind::real : TokenKind::integer, number.digits);
    advance(at_ + number.size);
  }

  void read_text() {
    const char quote = text_[at_];
    std::size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) fail_syntax(line_, "a text has no end; close it by {}", quote);
    push(TokenKind::text, unescaped(std::string_view(text_).substr(at_ + 1, end - at_ - 1), line_));
    advance(end + 1);
  }

  std::string text_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starts_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> cut_template(std::string_view source) { return Lexer(source).run(); }

}  // namespace comera::data::jinja
