// Cuts a template into text, and the words within its {{ }} and {% %}. The rules of white space are those of Jinja with
// trim_blocks and lstrip_blocks, which is how `transformers` reads chat templates.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/data/template/meter.h"

namespace comera::data::jinja {

enum class TokenKind : std::uint8_t {
  data,          // text outside of tags
  block_begin,   // {%
  block_end,     // %}
  output_begin,  // {{
  output_end,    // }}
  name,
  text,     // a literal, without quotes and escapes
  integer,  // a literal
  real,     // a literal
  sign,     // an operator
  end
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string text;
  int line = 1;
};

// An error of syntax and its line.
class SyntaxError : public TemplateError {
 public:
  SyntaxError(int line, const std::string& what) : TemplateError(what), line_(line) {}
  int line() const { return line_; }

 private:
  int line_;
};

template <class... Args>
[[noreturn]] void fail_syntax(int line, fmt::format_string<Args...> format, Args&&... args) {
  throw SyntaxError(line, fmt::format(format, std::forward<Args>(args)...));
}

// `source` is valid UTF-8. SyntaxError if a tag, a text or a comment has no end, or a character has no meaning. The
// last token has kind `end`.
std::vector<Token> cut_template(std::string_view source);

}  // namespace comera::data::jinja
