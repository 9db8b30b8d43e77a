#include "lib/data/files/cut.h"

namespace comera::data {

Cut cut_at_blank(std::string_view text) {
  const std::size_t blank = text.find_last_of(" \t");
  return blank == std::string_view::npos || blank == 0 ? Cut{text.size(), text.size()} : Cut{blank, blank + 1};
}

std::string_view whole_characters(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text;
  std::size_t end = most;
  while (end > 1 && most - end < 3 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end);
}

}  // namespace comera::data
