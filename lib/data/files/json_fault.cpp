#include "lib/data/files/json_fault.h"

#include <algorithm>

#include "lib/core/error.h"
#include "lib/core/terminal/log.h"

namespace comera::data {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// The start of the text in quotes that holds the character, or none.
std::size_t quote_around(std::string_view line, std::size_t at) {
  std::size_t quote = line.npos;
  for (std::size_t i = 0; i < at; ++i) {
    if (line[i] == '"')
      quote = quote == line.npos ? i : line.npos;
    else if (line[i] == '\\' && quote != line.npos)
      ++i;
  }
  return quote;
}

// Reading stops in a text at a control character, or in or behind an escape.
std::string fault_in_text(std::string_view line, std::size_t at) {
  if (static_cast<unsigned char>(line[at]) < 0x20)
    return fmt::format("byte {}: a control character stands in a text; write \\u{:04x}", at + 1,
                       static_cast<unsigned>(line[at]));
  const std::size_t escape = line.rfind('\\', at);
  if (escape == line.npos) return fmt::format("byte {}: a text is damaged here", at + 1);
  const std::string_view digits = line.substr(escape, 6);
  const bool surrogate = digits.size() == 6 && digits[1] == 'u' && (digits[2] == 'd' || digits[2] == 'D') &&
                         std::string_view("89abcdefABCDEF").find(digits[3]) != std::string_view::npos;
  if (surrogate)
    return fmt::format("byte {}: {} is half of a character; write both halves, or \\ufffd where the character is lost",
                       escape + 1, printable(digits));
  return fmt::format("byte {}: {} is no escape of JSON; write \\\\ for a backslash", escape + 1,
                     printable(line.substr(escape, 2)));
}

std::string fault_in_word(std::string_view line, std::size_t at) {
  std::size_t begin = at, end = at;
  while (begin > 0 && is_letter(line[begin - 1])) --begin;
  while (end < line.size() && is_letter(line[end])) ++end;
  if (begin > 0 && line[begin - 1] == '-') --begin;
  constexpr std::size_t longest_shown = 40;
  return fmt::format("byte {}: {} is no value of JSON; write null, true, false, a number, or a text in double quotes",
                     begin + 1, printable(line.substr(begin, std::min(end - begin, longest_shown))));
}

}  // namespace

std::string json_fault(std::string_view line, std::size_t byte, bool number_too_large) {
  const std::size_t at = byte == 0 ? 0 : byte - 1;
  if (number_too_large) {
    const std::size_t before = line.substr(0, at).find_last_not_of("0123456789+-.eE");
    return fmt::format("byte {}: a number is too large", before == line.npos ? 1 : before + 2);
  }
  if (at >= line.size())
    return fmt::format("byte {}: the line ends inside the object; write one object in braces per line", at + 1);
  if (quote_around(line, at) != line.npos) return fault_in_text(line, at);
  if (is_letter(line[at])) return fault_in_word(line, at);
  const std::string_view before = line.substr(0, at);
  const std::size_t last = before.find_last_not_of(" \t");
  if ((line[at] == '}' || line[at] == ']') && last != line.npos && line[last] == ',')
    return fmt::format("byte {}: a comma stands before the closing {}; leave it out", last + 1, line[at]);
  if (line[at] == '\'') return fmt::format("byte {}: a text is in single quotes; write double quotes", at + 1);
  return fmt::format("byte {}: {} is not expected here", at + 1, printable(line.substr(at, 1)));
}

}  // namespace comera::data
