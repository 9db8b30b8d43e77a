#include "lib/data/template/literal.h"

#include "lib/data/template/lexer.h"
#include "lib/data/tokenizer/unicode.h"

namespace comera::data::jinja {
namespace {

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : 99;
}

// Digits with single underscores between them.
std::size_t digits_at(std::string_view text, std::size_t at, int base) {
  const std::size_t begin = at;
  while (at < text.size()) {
    if (digit_of(text[at]) < base)
      ++at;
    else if (text[at] == '_' && at > begin && at + 1 < text.size() && digit_of(text[at + 1]) < base)
      at += 2;
    else
      break;
  }
  return at;
}

int base_of(std::string_view text) {
  if (text.size() < 3 || text[0] != '0') return 10;
  switch (text[1] | 0x20) {
    case 'x': return 16;
    case 'o': return 8;
    case 'b': return 2;
    default: return 10;
  }
}

// The end of a fraction and an exponent behind whole digits; `at` itself if there are none.
std::size_t fraction_end(std::string_view text, std::size_t at) {
  std::size_t end = at;
  if (end + 1 < text.size() && text[end] == '.' && digit_of(text[end + 1]) < 10) end = digits_at(text, end + 1, 10);
  if (end >= text.size() || (text[end] | 0x20) != 'e') return end;
  std::size_t exponent = end + 1;
  if (exponent < text.size() && (text[exponent] == '+' || text[exponent] == '-')) ++exponent;
  const std::size_t after = digits_at(text, exponent, 10);
  return after > exponent ? after : end;
}

char simple_escape(char c) {
  constexpr std::string_view from = "abfnrtv\\'\"", to = "\a\b\f\n\r\t\v\\'\"";
  const std::size_t at = from.find(c);
  return at == std::string_view::npos ? '\0' : to[at];
}

// Reads at most `most` digits at `at`, and exactly so many if `exact`.
std::uint32_t number(std::string_view text, std::size_t& at, std::size_t most, int base, bool exact, int line) {
  std::uint32_t value = 0;
  std::size_t count = 0;
  for (; count < most && at < text.size() && digit_of(text[at]) < base; ++count, ++at)
    value = value * static_cast<std::uint32_t>(base) + static_cast<std::uint32_t>(digit_of(text[at]));
  if (exact && count < most) fail_syntax(line, "the number of an escape in a text is cut short");
  if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000))
    fail_syntax(line, "the number of an escape in a text is that of no character");
  return value;
}

}  // namespace

NumberLiteral number_at(std::string_view text, bool behind_dot) {
  const int base = base_of(text);
  NumberLiteral literal;
  if (base != 10 && digits_at(text, 2, base) > 2) {
    literal.size = digits_at(text, 2, base);
  } else {
    const std::size_t whole = digits_at(text, 0, 10);
    literal.size = behind_dot ? whole : fraction_end(text, whole);
    literal.real = literal.size > whole;
  }
  for (const char c : text.substr(0, literal.size))
    if (c != '_') literal.digits += c;
  return literal;
}

std::string unescaped(std::string_view text, int line) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] != '\\') {
      result += text[at++];
      continue;
    }
    const char c = text[++at];  // a text never ends with a single backslash
    ++at;
    if (const char plain = simple_escape(c)) {
      result += plain;
    } else if (c >= '0' && c <= '7') {
      --at;
      append_utf8(result, number(text, at, 3, 8, false, line));
    } else if (c == 'x' || c == 'u' || c == 'U') {
      append_utf8(result, number(text, at, c == 'x' ? 2 : c == 'u' ? 4 : 8, 16, true, line));
    } else if (c == 'N') {
      fail_syntax(line, "characters by name (\\N) are not read; write the character itself");
    } else if (c != '\n') {
      (result += '\\') += c;
    }
  }
  return result;
}

}  // namespace comera::data::jinja
